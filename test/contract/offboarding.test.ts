// An organisation leaves: its user exports everything with `atherops export-telemetry`, and an operator deletes it. From then on no client
// can send to it, read from it or log in to it, and its telemetry is erased. A real backend with embedded engines.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { runClient } from "../../backend/cli/run-client.fixture.ts";
import { logRecord, logsBody, nanosecondsOf, span, tracesBody } from "../../backend/ingest/otlp/otlp-body.fixture.ts";
import { sign } from "../../common/protocol/signature.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { adminPassword, type Tenant } from "../fixtures/backend-process.ts";
import { call, eventually, temporaryFolder } from "../fixtures/processes.ts";

const backend = backendOfFile();
const LOGS = 1203;
const SAMPLES = 40;
let tenant: Tenant;

beforeAll(async () => {
  tenant = await backend.tenant("leaving");
});

async function send(path: string, body: Buffer): Promise<number> {
  const headers = sign(tenant.apiKey, "POST", path, Date.now() / 1000);
  return (await fetch(`${backend.apiUrl}${path}`, { method: "POST", headers, body: new Uint8Array(body) })).status;
}

const linesOf = <Line = Record<string, unknown>>(path: string): Line[] =>
  readFileSync(path, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line);

test("exports everything, then locks the organisation out and erases its telemetry", async () => {
  using folder = temporaryFolder();
  const now = nanosecondsOf(new Date());
  const records = Array.from({ length: LOGS }, (_, at) => logRecord(now - BigInt(at) * 1_000_000_000n, `record ${at}`));
  expect(await send("/ingest/logs/otlp", logsBody(records))).toBe(204);
  const spans = Array.from({ length: 7 }, (_, at) =>
    span(now, randomUUID().replaceAll("-", ""), `051581bf3cb55c${at}0`, { name: `s${at}` }),
  );
  expect(await send("/ingest/traces", tracesBody(spans))).toBe(204);
  const text = Array.from({ length: SAMPLES }, (_, at) => `shop_orders{of="x"} ${at} ${Date.now() - at * 60_000}\n`).join("");
  expect(await send("/ingest", Buffer.from(text))).toBe(204);
  const admin = { url: backend.apiUrl, sessionFile: join(folder.path, "admin") };
  const [email, password] = ["second@leaving.example", randomUUID()];
  await call("POST", `${backend.apiUrl}/api/users`, { bearer: tenant.token, body: { email, password, role: "viewer" } });
  expect((await runClient(`login --email ${email}`, { ...admin, input: `${password}\n` })).code).toBe(0);
  const out = join(folder.path, "export");
  const orders = (): number[] =>
    linesOf<{ metric: Record<string, string>; values: number[] }>(join(out, "metrics.ndjson"))
      .filter(({ metric }) => metric["__name__"] === "shop_orders")
      .flatMap(({ values }) => values);
  await backend.shows("the samples are exported", async () => {
    expect(await runClient(`export-telemetry --out ${out} --since 2d`, admin)).toMatchObject({ code: 0 });
    return orders().length === SAMPLES;
  });
  expect(orders().toSorted((one, other) => one - other)).toEqual(Array.from({ length: SAMPLES }, (_, at) => at));
  expect(new Set(linesOf(join(out, "logs.ndjson")).map(({ message }) => message)).size).toBe(LOGS);
  expect(linesOf(join(out, "spans.ndjson"))).toHaveLength(7);

  const operator = { url: backend.apiUrl, sessionFile: join(folder.path, "operator") };
  const operatorPassword = adminPassword(backend.place);
  expect((await runClient("login --email admin@localhost", { ...operator, input: `${operatorPassword}\n` })).code).toBe(0);
  expect(await runClient("retention set leaving --metrics-days 2", operator)).toMatchObject({ code: 0 });
  const shorter = await runClient(`export-telemetry --out ${out} --since 5d`, admin);
  expect(shorter).toMatchObject({ code: 0, err: expect.stringMatching(/^samples are exported from 20\S+Z on: /m) });
  const beginMs = Date.parse(/from (\S+) on/.exec(shorter.err)?.[1] ?? "");
  expect(Math.abs(Date.now() - 2 * 86_400_000 - beginMs)).toBeLessThan(86_400_000);
  expect(orders()).toHaveLength(SAMPLES);
  expect((await runClient("orgs delete leaving --confirm other", operator)).err).toContain("not the name");
  expect(await runClient("orgs delete leaving --confirm leaving", operator)).toMatchObject({ code: 0 });
  await eventually("the key is refused", async () => (await send("/ingest", Buffer.from("shop_orders 1\n"))) === 401);
  expect((await call("GET", `${backend.apiUrl}/query/logs`, { bearer: tenant.token })).status).toBe(401);
  // The next pass, which is once a minute. That later passes find nothing is in erasure.engine.test.ts.
  const found = async () => JSON.parse((await runClient("--json orgs deletions", operator)).out)[0].found as Record<string, number>;
  const erased = await eventually("the first pass", async () => (await found())["logs"] !== undefined && (await found()), 120_000);
  expect(erased).toMatchObject({ logs: LOGS, spans: 7, metrics: expect.any(Number) });
});
