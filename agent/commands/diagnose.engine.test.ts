import { execFileSync } from "node:child_process";
import { chmodSync, linkSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { toolPath } from "../../hack/fetch-tools.ts";
import { canMount, SmallDisk } from "../collector/supervision/small-disk.fixture.ts";
import { BackendClock } from "../upstream/clock.ts";
import { checkBackend, checkKey } from "./diagnose/backend.ts";
import { certificateProblem, type Finding } from "./diagnose/check.ts";
import { enrolmentToken } from "../enrolment-token.ts";
import { readMachineId } from "../identity/identity.ts";
import { checkCredentialsFile } from "./diagnose/host.ts";
import { checkAgent, checkCollector, checkDisk, checkLogs } from "./diagnose/node.ts";
import { BackendError } from "../upstream/backend-api.ts";
import { readSettings, type Settings } from "../settings.ts";
import { createUpstream } from "../upstream/pool.ts";

let folder: string;
let otelcol: string;
beforeAll(async () => void (otelcol = await toolPath("otelcol-contrib")));
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), "atherops-diagnose-test-"))));
afterEach(() => rmSync(folder, { recursive: true }));

function settings(env: NodeJS.ProcessEnv = {}): Settings {
  return readSettings("host", { BACKEND_URL: "http://127.0.0.1:1", STATE_DIR: folder, OTELCOL_PATH: otelcol, ...env }).settings;
}

/** An HTTP server that answers every request alike. */
async function answering(
  status: number,
  headers: Record<string, string> = {},
  body = "",
): Promise<{ url: string; port: number } & Disposable> {
  const server = createServer((_request, response) => void response.writeHead(status, headers).end(body));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const end = (): void => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${port}`, port, [Symbol.dispose]: end };
}

function texts(findings: Finding[]): string {
  return findings.map(({ status, detail, advice = "" }) => `${status}: ${detail} ${advice}`).join("\n");
}

const ACCEPTS = { heartbeat: () => Promise.resolve({ body: undefined, keyAgeDays: 4 }) };
const REFUSES = { heartbeat: () => Promise.reject(new BackendError("revoked_key", "the key was revoked", { status: 401 })) };
const CREDENTIAL = { id: "i", apiKey: "ak_x", keyCreatedAt: "" };

describe("diagnose", () => {
  test("backend and clock: passes; warns of a skew or another server; fails for a large skew or no healthy backend", async () => {
    using good = await answering(200);
    using slowClock = await answering(200, { date: new Date(Date.now() + 120_000).toUTCString() });
    using wrongClock = await answering(200, { date: new Date(Date.now() - 3_600_000).toUTCString() });
    using other = await answering(404);
    using unwell = await answering(502);
    const check = async (backendUrl: string): Promise<string> => {
      await using upstream = createUpstream({ backendUrl });
      return texts(await checkBackend({ backendUrl }, upstream, new BackendClock(pino({ level: "silent" }))));
    };
    expect(await check(good.url)).toMatch(/^ok: answers[^]*\nok: 0 s/);
    expect(await check(slowClock.url)).toMatch(/\nwarn: (118|119|120) s behind/);
    expect(await check(wrongClock.url)).toMatch(/\nfail: 360[01] s ahead/);
    expect(await check(other.url)).toMatch(/^warn: answers 404 .*another server/);
    expect(await check(unwell.url)).toMatch(/^fail: answers 502/);
    expect(await check("http://127.0.0.1:1")).toMatch(/^fail: [^]*no server listens/);
  });

  test.each([
    ["CERT_HAS_EXPIRED", "expired"],
    ["ERR_TLS_CERT_ALTNAME_INVALID", "other name"],
    ["DEPTH_ZERO_SELF_SIGNED_CERT", "unknown authority"],
    ["UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "unknown authority"],
    ["ECONNREFUSED", undefined],
  ])("classifies the certificate error %s as %s, also as the cause of another error", (code, problem) => {
    const error = Object.assign(new Error("no"), { code });
    expect([certificateProblem(error), certificateProblem(new Error("wrapped", { cause: error }))]).toEqual([problem, problem]);
  });

  test("key: passes if the backend accepts it, fails with advice if it is revoked", async () => {
    expect(texts(await checkKey(CREDENTIAL, "/x", ACCEPTS, "give an INSTALL_TOKEN"))).toMatch(/^ok: .*4 days/);
    expect(texts(await checkKey(CREDENTIAL, "/x", REFUSES, "give an INSTALL_TOKEN"))).toMatch(/^fail: .*INSTALL_TOKEN/);
  });

  test("credentials: passes with a key, warns before enrolment and of an open file, fails without a token", async () => {
    const path = join(folder, "credentials.json");
    const check = async (installToken?: string, identityToken?: string): Promise<string> =>
      texts(await checkCredentialsFile(path, enrolmentToken(installToken, identityToken), ACCEPTS));
    expect(await check()).toMatch(/^fail: .*not enrolled/);
    expect(await check("it_x")).toMatch(/^warn: not enrolled yet.*INSTALL_TOKEN is set/);
    expect(await check(undefined, "signed")).toMatch(/^warn: not enrolled yet.*IDENTITY_TOKEN is set/);
    writeFileSync(path, JSON.stringify({ agent_id: "i", api_key: "ak_x" }), { mode: 0o600 });
    expect(await check()).toMatch(/^ok: .*\nok: /);
    writeFileSync(path, JSON.stringify({ agent_id: "i", api_key: "ak_x", machine_id: "of another host" }), { mode: 0o600 });
    expect(await check()).toMatch(readMachineId() === undefined ? /^ok: .*\nok: / : /\nwarn: .*the key was made for of another host/);
    chmodSync(path, 0o644);
    expect(await check()).toMatch(/^warn: .*open to others/);
    for (const text of ["{", "null"]) {
      writeFileSync(path, text);
      expect(await check()).toMatch(/^fail: .*not JSON/);
    }
  });

  test.skipIf(!canMount)(
    "credentials on a read-only mount (needs root): warns if the group can read them, fails if others can",
    async () => {
      using disk = new SmallDisk(join(folder, "mounted"), "64k");
      const path = join(disk.path, "credentials.json");
      writeFileSync(path, JSON.stringify({ agent_id: "i", api_key: "ak_x" }), { mode: 0o440 });
      disk.readOnly();
      const check = async (): Promise<string> => texts(await checkCredentialsFile(path, undefined, ACCEPTS));
      expect(await check()).toMatch(/^warn: the group of .* may read the key \(mode 440\).*\nok: .*\nok: /);
      disk.writable();
      chmodSync(path, 0o444);
      disk.readOnly();
      expect(await check()).toMatch(/^fail: .*grants more than read access to its group.*mode 0400/);
    },
  );

  test("disk: passes with space for the queues, warns without", async () => {
    expect(texts(await checkDisk(settings({ QUEUE_MIB: "16" })))).toMatch(/^ok/);
    expect(texts(await checkDisk(settings({ QUEUE_MIB: "1048576" })))).toMatch(/^warn: .*QUEUE_MIB/);
    const cluster = { clusterState: true, kubernetesEvents: true } as Settings["cluster"];
    expect(texts(await checkDisk({ ...settings({ QUEUE_MIB: "100" }), cluster }))).toContain("may use 600 MiB");
  });

  test("collector: passes, and fails with a reason if it is missing or rejects the configuration", async () => {
    expect(texts(await checkCollector(settings()))).toMatch(/^ok/);
    expect(texts(await checkCollector(settings({ OTELCOL_PATH: join(folder, "none") })))).toMatch(/^fail: OTELCOL_PATH/);
    writeFileSync(join(folder, "overlay.yaml"), "receivers: {otlp: {protocol: {}}}");
    expect(texts(await checkCollector(settings({ COLLECTOR_CONFIG_FILE: join(folder, "overlay.yaml") })))).toMatch(/^fail: [^]*protocol/);
  });

  test("collector: of another version that rejects the configuration, names the version", async () => {
    const program = join(folder, "old");
    writeFileSync(program, '#!/bin/sh\n[ "$1" = --version ] && echo version 0.90.1 || { echo unknown type: file_log >&2; exit 1; }', {
      mode: 0o755,
    });
    expect(texts(await checkCollector(settings({ OTELCOL_PATH: program })))).toMatch(
      /^fail: .*file_log.* OTELCOL_PATH is version 0\.90\.1/,
    );
  });

  test("log files: passes if they are readable, warns if none match or a link leads outside", async () => {
    const env = { LOG_PATHS: `${folder}/*.log`, LOG_PATHS_ALLOWED: `${folder}/**`, STATE_DIR: join(folder, "state") };
    expect(texts(await checkLogs(settings(env)))).toMatch(/^warn: no file matches/);
    writeFileSync(join(folder, "a.log"), "x\n");
    expect(texts(await checkLogs(settings(env)))).toMatch(/^ok/);
    symlinkSync("/etc/passwd", join(folder, "b.log"));
    expect(texts(await checkLogs(settings(env)))).toMatch(/^warn: .*b\.log/);
    execFileSync("mkfifo", [join(folder, "c.log")]);
    expect(texts(await checkLogs(settings(env)))).toMatch(/warn: FIFOs, sockets and devices are not read: 1, for example .*c\.log/);
    chmodSync(folder, 0o777);
    linkSync(join(folder, "a.log"), join(folder, "d.log"));
    expect(texts(await checkLogs(settings(env)))).toMatch(/warn: files with another hard link .* are not read: 2, for example .*[ad]\.log/);
  });

  test("running agent: passes if ready, fails with its reasons and undelivered signals, warns if none runs", async () => {
    const failing = [{ signal: "logs", since: "then", error: "answered 503" }];
    using ready = await answering(200, {}, JSON.stringify({ ready: true, reasons: [], failing }));
    using unready = await answering(503, {}, JSON.stringify({ ready: false, reasons: ["not enrolled yet"], failing: [] }));
    const check = async (port: number): Promise<string> =>
      texts(await checkAgent({ health: { host: "127.0.0.1", port }, cluster: undefined }));
    expect(await check(ready.port)).toMatch(/^ok: ready.*\nfail: .*answered 503/);
    expect(await check(unready.port)).toMatch(/^fail: not enrolled yet/);
    expect(await check(1)).toMatch(/^warn: no agent/);
  });

  test("running agent: warns of ignored annotations, and of namespaces whose annotations are unknown", async () => {
    const effective = { "shop/web-1": { bytesPerSecond: 1000, keptPercent: 12.5, droppedBytes: 7000 } };
    const logPolicies = { effective, refused: { "shop atherops.io/logs-fields": "is beyond the limit" }, dropped: 3 };
    using agent = await answering(200, {}, JSON.stringify({ ready: true, reasons: [], failing: [], logPolicies }));
    const found = texts(await checkAgent({ health: { host: "127.0.0.1", port: agent.port }, cluster: undefined }));
    expect(found).toMatch(
      /\nwarn: shop\/web-1: .*7000.* dropped by a rate limit[^]*\nwarn: shop .*beyond the limit[^]*\nwarn: 3 namespaces or LogPolicy/,
    );
  });
});
