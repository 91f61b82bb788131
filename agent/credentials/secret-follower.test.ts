import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Secret } from "../kubernetes/transport.ts";
import { pino } from "pino";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { KubernetesApi } from "../kubernetes/api.ts";
import { ClusterSecret, renderSecret } from "./cluster-secret.ts";
import { SecretFollower, type SecretView } from "./secret-follower.ts";

const SOON = { timeout: 50_000 };
/** Nothing but the watch, however slow the machine. */
const WATCH_ALONE = { pollEveryMs: 3_600_000, watchForMs: 3_600_000, watchLagMs: 3_600_000, backoffMs: [20, 40] as const };
const TIMING = { pollEveryMs: 50, watchForMs: 60_000, watchLagMs: 50, backoffMs: [20, 40] as const };

let folder: string;
let server: Server;
let api: KubernetesApi;
let stop: AbortController;
/** The object that a read answers; undefined: 404. */
let object: Secret | undefined;
let watches: ServerResponse[];
let seen: SecretView[];
let running: Promise<void>;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "follower-"));
  writeFileSync(join(folder, "token"), "token");
  object = withKey("ak_1", "1");
  watches = [];
  seen = [];
  server = createServer((request, response) => {
    if (request.url?.includes("watch=true")) {
      watches.push(response.writeHead(200));
      response.flushHeaders();
    } else response.writeHead(object ? 200 : 404).end(JSON.stringify(object ?? { reason: "NotFound" }));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  api = new KubernetesApi({ server: url, caFile: join(folder, "token"), tokenFile: join(folder, "token") });
  stop = new AbortController();
});

afterEach(async () => {
  stop.abort();
  await running;
  await api[Symbol.asyncDispose]();
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});

function withKey(apiKey: string, resourceVersion: string): Secret {
  const credential = { id: "c", apiKey, keyCreatedAt: "2026-01-01T00:00:00Z" };
  return renderSecret({ metadata: { name: "s", resourceVersion } }, { credential, pendingEnrolments: {}, rotateRequested: false });
}

function follow(timing = TIMING): SecretFollower {
  const secret = new ClusterSecret(api, { namespace: "n", name: "s" });
  const follower = new SecretFollower(api, secret, { timing, log: pino({ level: "silent" }), onChange: (view) => seen.push(view) });
  running = follower.run(stop.signal);
  return follower;
}

function keysSeen(): (string | undefined)[] {
  return seen.map((view) => view?.credential?.apiKey);
}

it("detects a change by polling if the watch is silent, and starts a new watch", async () => {
  follow();
  await vi.waitFor(() => expect(keysSeen()).toEqual(["ak_1"]), SOON);
  const before = watches.length;
  object = withKey("ak_2", "2");
  await vi.waitFor(() => expect(keysSeen()).toEqual(["ak_1", "ak_2"]), SOON);
  await vi.waitFor(() => expect(watches.length).toBeGreaterThan(before), SOON);
});

it("detects a change by the watch without polling", async () => {
  follow({ ...TIMING, pollEveryMs: 3_600_000 });
  await vi.waitFor(() => expect(watches).toHaveLength(1), SOON);
  watches[0]!.write(`${JSON.stringify({ type: "ADDED", object })}\n`);
  const line = JSON.stringify({ type: "MODIFIED", object: withKey("ak_2", "2") });
  watches[0]!.write(line.slice(0, 40));
  watches[0]!.write(`${line.slice(40)}\n`);
  await vi.waitFor(() => expect(keysSeen()).toEqual(["ak_1", "ak_2"]), SOON);
});

it("ignores a late watch event and an earlier deletion", async () => {
  const follower = follow(WATCH_ALONE);
  await vi.waitFor(() => expect(watches).toHaveLength(1), SOON);
  watches[0]!.write(`${JSON.stringify({ type: "ADDED", object })}\n`);
  await vi.waitFor(() => expect(keysSeen()).toEqual(["ak_1"]), SOON);
  object = withKey("ak_2", "10");
  await follower.poll(stop.signal);
  const late = [
    { type: "MODIFIED", object: withKey("ak_late", "9") },
    { type: "DELETED", object: withKey("ak_late", "8") },
    { type: "MODIFIED", object: withKey("ak_odd", "x") },
  ];
  watches[0]!.write(late.map((event) => `${JSON.stringify(event)}\n`).join(""));
  object = withKey("ak_3", "11");
  watches[0]!.write(`${JSON.stringify({ type: "MODIFIED", object })}\n`);
  await vi.waitFor(() => expect(keysSeen()).toContain("ak_3"), SOON);
  expect(keysSeen()).toEqual(["ak_1", "ak_2", "ak_3"]);
});

it("reads the Secret again if an event is older than the known version, because etcd may have been restored", async () => {
  const follower = follow(WATCH_ALONE);
  await vi.waitFor(() => expect(watches).toHaveLength(1), SOON);
  object = withKey("ak_2", "10");
  await follower.poll(stop.signal);
  object = withKey("ak_restored", "3");
  watches[0]!.write(`${JSON.stringify({ type: "MODIFIED", object })}\n`);
  await vi.waitFor(() => expect(keysSeen().at(-1)).toBe("ak_restored"), SOON);
});

it("starts a new watch after an error event", async () => {
  follow({ ...TIMING, pollEveryMs: 3_600_000 });
  await vi.waitFor(() => expect(watches).toHaveLength(1), SOON);
  watches[0]!.write(`${JSON.stringify({ type: "ERROR", object: { code: 410, reason: "Expired", message: "too old" } })}\n`);
  await vi.waitFor(() => expect(watches).toHaveLength(2), SOON);
});

it("distinguishes a deleted Secret from one that cannot be read", async () => {
  const follower = follow({ ...TIMING, pollEveryMs: 3_600_000 });
  await follower.poll(stop.signal);
  object = undefined;
  await follower.poll(stop.signal);
  expect(keysSeen()).toEqual(["ak_1", undefined]);
  server.closeAllConnections();
  server.close();
  await expect(follower.poll(stop.signal)).rejects.toThrow(/fetch failed|other side closed|ECONNREFUSED/);
  expect(seen).toHaveLength(2);
});
