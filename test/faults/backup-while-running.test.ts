// `atherops-backend backup` while the backend runs under load with every embedded engine: the backup contains everything that was
// acknowledged before it began, and the restored installation works. If backup or backend is killed, it
// leaves no backup that looks complete, and no files of it.
import { randomBytes, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { HOST_HEARTBEAT_PATH } from "../../common/protocol/enrolment.ts";
import { sign } from "../../common/protocol/signature.ts";
import { requestSnapshot } from "../../backend/operations/backup/snapshot-client.ts";
import { SNAPSHOT_FOLDER } from "../../backend/operations/backup/snapshot-protocol.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { backendPlace, type BackendPlace, startBackend, type Tenant } from "../fixtures/backend-process.ts";
import { expectExactSummariesIn } from "../fixtures/exact-summaries.ts";
import { allNamed, sendOneOfEach, storedNames } from "../fixtures/one-of-each.ts";
import { call, eventually, signedPost, TestProcess } from "../fixtures/processes.ts";
import { lossesOf, NOTHING_LOST, Senders, type Sent, SIGNALS } from "../fixtures/senders.ts";

const backend = backendOfFile({ JWT_TTL: "2h" });
let tenant: Tenant;
let out: string;

beforeAll(async () => {
  tenant = await backend.tenant("load");
  out = join(backend.folder, "out");
  mkdirSync(out);
});

function started(place: BackendPlace, args: string[], name: string): TestProcess {
  return new TestProcess(["backend/main.ts", ...args], place.env, join(backend.folder, `${name}.out`));
}

async function run(
  place: BackendPlace,
  args: string[],
  name = args.join("-").replaceAll("/", ""),
): Promise<{ code: number | null; output: string }> {
  await using process = started(place, args, name);
  await process.exited;
  return { code: process.child.exitCode, output: process.log };
}

/** A second place, with the same programs. */
async function elsewhere(name: string): Promise<BackendPlace> {
  mkdirSync(join(backend.folder, name));
  return await backendPlace(join(backend.folder, name), { JWT_TTL: "2h" });
}

/** Files of a snapshot in DATA_DIR, which must not remain after it. */
function held(): string[] {
  const { dataDir } = backend;
  const names = (path: string): string[] => (existsSync(join(dataDir, path)) ? readdirSync(join(dataDir, path)) : []);
  return [
    ...names(".").filter((name) => name === SNAPSHOT_FOLDER),
    ...names("clickhouse/shadow").filter((name) => name.startsWith("backup")),
    ...["metrics/snapshots", "metrics/data/small/snapshots", "metrics/data/big/snapshots", "metrics/data/indexdb/snapshots"].flatMap(names),
  ];
}

/** Enrols hosts and makes rules, one after the other, until it is stopped; what was answered, in order. */
class Enrolling implements AsyncDisposable {
  readonly keys: string[] = [];
  readonly rules: string[] = [];
  readonly #running: Promise<void>;
  #ends = false;

  constructor() {
    this.#running = this.#run();
  }

  async #run(): Promise<void> {
    for (let number = 1; !this.#ends; number += 1) {
      const installToken = await backend.installToken(tenant.token);
      const enrolled = await call("POST", `${backend.apiUrl}/api/v1/agents/register`, {
        bearer: installToken,
        body: { hostname: `host-${number}`, machine_id: `machine-${number}`, agent_version: "0.1.0" },
        headers: { "idempotency-key": randomUUID() },
      });
      expect([enrolled.status, enrolled.text]).toEqual([201, expect.any(String)]);
      this.keys.push(enrolled.json.api_key as string);
      const rule = { name: `rule ${number}`, expr: `under_load > ${number}`, for: "1m", severity: "warning", enabled: true };
      const made = await call("POST", `${backend.apiUrl}/alerting/rules`, { bearer: tenant.token, body: rule });
      expect([made.status, made.text]).toEqual([201, expect.any(String)]);
      this.rules.push(made.json.id as string);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ends = true;
    await this.#running;
  }
}

function headersOf(key: string): Record<string, string> {
  return { ...sign(key, "POST", HOST_HEARTBEAT_PATH, Date.now() / 1000), "content-type": "application/json" };
}

/**
 * Expects that all data acknowledged before `startMs` is there, that no data is there twice, and that later bodies are complete or absent;
 * for logs, this applies to each of a body's two days, which the engine stores separately.
 */
async function expectComplete(place: BackendPlace, sent: readonly Sent[], startMs: number): Promise<void> {
  const expected = sent.map((one) => ((one.acknowledgedMs ?? Infinity) < startMs ? one : { ...one, acknowledgedMs: undefined }));
  for (const signal of SIGNALS) {
    expect(await lossesOf(place.apiUrl, tenant.token, signal, expected), signal).toEqual(NOTHING_LOST);
    const all = sent.map((one) => ({ ...one, acknowledgedMs: startMs }));
    const absent = new Set((await lossesOf(place.apiUrl, tenant.token, signal, all)).lost);
    const days = sent.flatMap(({ ids, signal: of }) =>
      of === "logs" ? [0, 1].map((day) => ids.filter((_, at) => at % 2 === day)) : [ids],
    );
    expect(days.filter((ids) => ids.some((id) => absent.has(id)) && !ids.every((id) => absent.has(id)))).toEqual([]);
  }
}

async function moreOf(senders: Senders, bodies: number): Promise<void> {
  for (const signal of SIGNALS) {
    const before = senders.acknowledged(signal).length;
    await eventually(`${bodies} more ${signal}`, async () => senders.acknowledged(signal).length >= before + bodies);
  }
}

/** Each starts the backend and the command several times: seconds, but minutes of a machine that is busy with something else. */
const TIMEOUT_MS = 600_000;

describe("a backup of a running backend", { timeout: TIMEOUT_MS }, () => {
  test("under load contains all data acknowledged before, no partial body, exact counts by minute, and works in another DATA_DIR", async () => {
    await using senders = new Senders({ apiUrl: backend.apiUrl, tenant });
    await using enrolling = new Enrolling();
    await moreOf(senders, 20);
    const startMs = Date.now();
    const before = { keys: [...enrolling.keys], rules: [...enrolling.rules] };
    const taken = await run(backend.place, ["backup", join(out, "first")], "first");
    expect([taken.code, taken.output]).toEqual([0, expect.stringContaining("it contains everything acknowledged before: metrics 2")]);
    expect(taken.output).toMatch(/copying \d+ files?, [\d.]+ \w+, to .*; [\d.]+ \w+ available/);
    expect(held()).toEqual([]);
    await moreOf(senders, 3);
    await senders.finish();
    await enrolling[Symbol.asyncDispose]();
    expect([...senders.answers.keys()]).toEqual(["204"]);
    expect(before.keys.length).toBeGreaterThan(0);
    const times = (JSON.parse(readFileSync(join(out, "first", "manifest.json"), "utf8")) as { moments: Record<string, string> }).moments;
    for (const store of ["logs", "spans", "metrics"]) expect(times["accounts"]! >= times[store]!, store).toBe(true);

    const second = await elsewhere("second");
    const restored = await run(second, ["restore", join(out, "first")]);
    expect([restored.code, restored.output]).toEqual([0, expect.stringContaining("give each such agent a new install token")]);
    expect(restored.output).toMatch(/accounts as of .*: 2 organisations, 2 users, \d+ keys, 0 clusters, \d+ hosts?, \d+ rules?/);
    expect(restored.output).toMatch(
      /logs as of .*: [\d,]+ rows\nspans as of .*: [\d,]+ rows\nmetrics as of .*: [\d,]+ series, [\d,]+ samples/,
    );
    await expectExactSummariesIn(second.dataDir);
    await using _again = await startBackend(second);
    await expectComplete(second, senders.sent, startMs);
    for (const key of before.keys)
      expect((await call("POST", `${second.apiUrl}${HOST_HEARTBEAT_PATH}`, { body: "{}", headers: headersOf(key) })).status).toBeLessThan(
        300,
      );
    const rules = (await call("GET", `${second.apiUrl}/alerting/rules`, { bearer: tenant.token })).json as { id: string }[];
    expect(before.rules.filter((id) => !rules.some((rule) => rule.id === id))).toEqual([]);
    expect((await signedPost(second.apiUrl, "/ingest", tenant.apiKey, "after_it 1\n")).status).toBe(204);
    expect((await call("GET", `${second.healthUrl}/readyz`)).json).toMatchObject({ status: "ready" });
  });

  test("is rejected while another is in progress, and made afterwards", async () => {
    {
      await using _other = await requestSnapshot(backend.dataDir);
      expect(held()).toContain(SNAPSHOT_FOLDER);
      const refused = await run(backend.place, ["backup", join(out, "refused")]);
      expect([refused.code, refused.output]).toEqual([
        2,
        expect.stringMatching(/^atherops-backend: another backup has been running since 2.*Z\n$/),
      ]);
    }
    expect(held()).toEqual([]);
    expect((await run(backend.place, ["backup", join(out, "after-it")])).code).toBe(0);
    expect(readdirSync(out).filter((name) => name.includes("refused"))).toEqual([]);
  });

  test("killed half-way, leaves nothing that looks complete, the backend releases the snapshot, and the next one is made", async () => {
    // Copied last, and long enough to be killed meanwhile.
    const large = join(backend.dataDir, "zz-large");
    writeFileSync(large, randomBytes(128 * 1024 * 1024));
    const folder = join(out, "killed");
    const killed = started(backend.place, ["backup", folder], "killed");
    // Polls closely: the copy of this file takes a fraction of a second.
    while (!existsSync(join(out, ".killed.partial", "data", "zz-large"))) await sleep(2);
    await killed.end("SIGKILL");
    expect(killed.child.signalCode).toBe("SIGKILL");
    rmSync(large);
    expect(existsSync(folder)).toBe(false);
    const refused = await run(await elsewhere("of-killed"), ["restore", join(out, ".killed.partial")]);
    expect([refused.code, refused.output]).toEqual([2, expect.stringContaining("is not a backup")]);
    await eventually("the backend lets go", async () => held().length === 0);
    expect((await signedPost(backend.apiUrl, "/ingest", tenant.apiKey, "goes_on 1\n")).status).toBe(204);
    expect((await run(backend.place, ["backup", folder], "repeated")).code).toBe(0);
    expect(readdirSync(out).filter((name) => name.includes("killed"))).toEqual(["killed"]);
  });

  test("fails with a sentence and without files if the backend is killed; the next start removes the snapshot", async () => {
    const open = await requestSnapshot(backend.dataDir);
    expect(held().length).toBeGreaterThan(4);
    await backend.end("SIGKILL");
    await eventually("the loss is reported", async () => open?.lost.aborted);
    expect(String(open?.lost.reason)).toContain("the partial backup was removed: run the command again");
    expect(held().length).toBeGreaterThan(4);
    await backend.start();
    expect(held()).toEqual([]);
    expect((await run(backend.place, ["backup", join(out, "after-kill")])).code).toBe(0);
  });

  test("of a backend that was killed during a snapshot, cold, does not contain the snapshot, and works in another DATA_DIR", async () => {
    const quiet = await backend.tenant("quiet");
    await sendOneOfEach(backend.apiUrl, quiet.apiKey, "kept");
    await requestSnapshot(backend.dataDir);
    await backend.end("SIGKILL");
    expect((await run(backend.place, ["backup", join(out, "cold")])).code).toBe(0);
    expect(held()).toEqual([]);
    const files = Object.keys((JSON.parse(readFileSync(join(out, "cold", "manifest.json"), "utf8")) as { entries: object }).entries);
    expect(files.filter((file) => /snapshots\/|shadow\/backup/.test(file) || file.startsWith(SNAPSHOT_FOLDER))).toEqual([]);
    const third = await elsewhere("third");
    expect((await run(third, ["restore", join(out, "cold")])).code).toBe(0);
    await using _again = await startBackend(third);
    // The journal may hold rows that are stored already, which the start finds out.
    await expect.poll(() => storedNames(third.apiUrl, quiet.token), { timeout: 60_000 }).toEqual(allNamed("kept"));
    expect((await signedPost(third.apiUrl, "/ingest", quiet.apiKey, "after_it 1\n")).status).toBe(204);
    await backend.start();
  });

  test("with a changed part of logs, samples or accounts is rejected in one sentence", async () => {
    expect((await signedPost(backend.apiUrl, "/ingest", tenant.apiKey, "to_be_damaged 1\n")).status).toBe(204);
    expect((await run(backend.place, ["backup", join(out, "whole")])).code).toBe(0);
    const files = readdirSync(join(out, "whole", "data"), { recursive: true, encoding: "utf8" });
    for (const name of [/clickhouse\/store\/.*\.bin$/, /metrics\/data\/(small|big)\/.*\/index\.bin$/, /^accounts\.sqlite$/]) {
      const file = files.find((path) => name.test(path) && statSync(join(out, "whole", "data", path)).size > 0) ?? "";
      const path = join(out, "whole", "data", file);
      const content = readFileSync(path);
      writeFileSync(path, content.with(content.length >> 1, (content[content.length >> 1] ?? 0) ^ 1));
      const place = await elsewhere(`damaged-${file.replaceAll("/", "-")}`);
      const refused = await run(place, ["restore", join(out, "whole")], "damaged");
      writeFileSync(path, content);
      expect(refused.code).toBe(2);
      expect(refused.output).toContain(`this backup is damaged: ${file} is not as it was written; nothing was restored\n`);
      expect(readdirSync(place.dataDir).filter((one) => one !== "lock")).toEqual([]);
    }
  });
});
