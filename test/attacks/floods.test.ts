// Checks that no connection's bytes are work without a turn, on the listeners and routes of the backend without engines: during each attack,
// `/healthz` is answered and memory stays low. Asserted are CPU time and memory, which a busy machine does not inflate, with large margins;
// waiting times are printed. Also checks that no anonymous request is costly.
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { request as httpRequest, Agent } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { declaredRoutes } from "../../hack/openapi.ts";
import { eventually, temporaryFolder } from "../fixtures/processes.ts";
import { Attacker, type Attack, type Target } from "./attack.ts";
import type { FloodedServer, Used } from "./flooded-server.ts";
import * as floods from "./floods.ts";
import * as http2 from "./http2-frames.ts";

/** CPU time during one probe, and memory above rest, that are allowed; before these limits existed: up to 23 s and 3.5 GiB. */
const MAX_PROBE_CPU_MS = 500;
const MAX_MIB_ABOVE_REST = 300;

const folder = temporaryFolder();
let child: ChildProcess;
let server: FloodedServer;

beforeAll(async () => {
  child = fork(join(import.meta.dirname, "flooded-server.ts"), [folder.path]);
  [server] = (await once(child, "message")) as [FloodedServer];
});
afterAll(() => {
  child.kill("SIGKILL");
  folder[Symbol.dispose]();
});

async function used(): Promise<Used> {
  const answer = once(child, "message");
  child.send("used");
  return ((await answer) as [Used])[0];
}

const agent = new Agent({ keepAlive: true, maxSockets: 1 });

async function ask(
  url: string,
  { method = "GET", headers = {} }: { method?: string; headers?: Record<string, string> } = {},
): Promise<Buffer> {
  const sent = httpRequest(url, { method, headers, agent }).end();
  const [answer] = (await once(sent, "response")) as [AsyncIterable<Buffer>];
  const parts: Buffer[] = [];
  for await (const part of answer) parts.push(part);
  return Buffer.concat(parts);
}

const ATTACKS: Readonly<Record<string, (to: FloodedServer) => Attack>> = {
  "requests that are pipelined": () => floods.sixteenPipelined,
  "refused bodies in chunks of one byte": () => floods.smallChunks,
  "chunks of one byte behind an unread answer": () => floods.chunksBehindAnswer,
  "chunks of one byte on the health port": () => floods.healthChunks,
  "compressed bodies in chunks of one byte": () => floods.compressedChunks("/read"),
  "empty WebSocket frames": () => floods.smallFrames("/followed"),
  "TLS handshakes, and records of one byte": ({ tlsUrl }) => floods.tlsRecords(tlsUrl),
  "HTTP/2 frames of one byte": () => http2.tinyFrames,
  "endless HTTP/2 headers": () => http2.continuations,
  "calls over HTTP/2 that are cancelled at once": () => http2.cancelledCalls,
  "endless HTTP/2 window updates": () => http2.windowUpdates,
};

describe.each(Object.entries(ATTACKS))("during %s", (name, attackOf) => {
  test("probes cost little CPU time, and memory stays low", async () => {
    await ask(`${server.apiUrl}/openapi.json`);
    const rest = await used();
    const target = { ...server, ingestToken: "ig_x", viewerToken: "x" } as Partial<Target> as Target;
    await using attacker = new Attacker(target);
    const attack = attackOf(server);
    const state = { isOver: false };
    const waves = (async () => {
      for (let turn = 0; turn < 2; turn += 1) await attack.wave(attacker, turn);
    })().finally(() => (state.isOver = true));
    const probes: { waitMs: number; cpuMs: number; mib: number }[] = [];
    while (!state.isOver) {
      const [before, startedMs] = [await used(), performance.now()];
      await ask(`${server.healthUrl}/healthz`);
      const waitMs = performance.now() - startedMs;
      const after = await used();
      probes.push({ waitMs, cpuMs: after.cpuMs - before.cpuMs, mib: after.rssMiB - rest.rssMiB });
      // Paces the probes.
      await sleep(20);
    }
    await waves;
    const most = (field: "waitMs" | "cpuMs" | "mib"): number => Math.max(...probes.map((probe) => probe[field]));
    const answers = [...attacker.answers].map(([answer, count]) => `${count} × ${answer}`).join(", ");
    console.log(
      `${name}: /healthz at most ${most("waitMs").toFixed(0)} ms (CPU ${most("cpuMs").toFixed(0)} ms), memory +${most("mib").toFixed(0)} MiB; ${answers}`,
    );
    expect(attacker.answers.size).toBeGreaterThan(0);
    expect(most("cpuMs")).toBeLessThan(MAX_PROBE_CPU_MS);
    expect(most("mib")).toBeLessThan(MAX_MIB_ABOVE_REST);
    await eventually("its connections are closed, and it answers", async () => (await ask(`${server.apiUrl}/trivial`)).length > 0);
  });
});

test("a request without a credential costs at most 1 ms of CPU time, on every route", async () => {
  const routes = [...(await declaredRoutes()), { method: "GET", path: "/openapi.json" }, { method: "GET", path: "/no/such/path" }];
  const cost = async (url: string, method: string, headers: Record<string, string> = {}): Promise<number> => {
    const batches: number[] = [];
    for (let batch = 0; batch < 5; batch += 1) {
      const before = await used();
      for (let count = 0; count < 10; count += 1) await ask(url, { method, headers });
      batches.push(((await used()).cpuMs - before.cpuMs) / 10);
    }
    return batches.sort((a, b) => a - b)[2] ?? 0;
  };
  const filled = (path: string): string => path.replaceAll(/\{\w+\}/g, "x");
  // Twice, because the code of the first requests is not compiled yet.
  await cost(`${server.apiUrl}/trivial`, "GET");
  const trivial = await cost(`${server.apiUrl}/trivial`, "GET");
  const numbers = Array.from({ length: 12_000 }, (_, index) => index.toString(36));
  const parameters = `?${numbers.join("=&")}`;
  const targets: { name: string; method: string; url: string; headers?: Record<string, string> }[] = [
    // Heads of about 60 KB.
    ...["/trivial", "/query/logs", "/no/such/path"].map((path) => ({
      name: `GET ${path} with 12,000 parameters`,
      method: "GET",
      url: server.apiUrl + path + parameters,
    })),
    { name: "a parameter of 60 KB in escapes", method: "GET", url: `${server.apiUrl}/trivial?a=${"%41".repeat(20_000)}` },
    ...["accept", "accept-encoding", "if-none-match", "cookie", "x-forwarded-for"].map((header) => ({
      name: `GET /openapi.json with a long ${header}`,
      method: "GET",
      url: `${server.apiUrl}/openapi.json`,
      // Compressed, because sending 360 kB would cost more than reading the head.
      headers: { "accept-encoding": "gzip", [header]: ["gzip", ...numbers].join(header === "cookie" ? "=;" : ",") },
    })),
    ...routes.map(({ method, path }) => ({ name: `${method} ${path}`, method, url: server.apiUrl + filled(path) })),
    { name: "alerting: GET /openapi.json", method: "GET", url: `${server.alertingUrl}/openapi.json` },
    { name: "health: GET /healthz", method: "GET", url: `${server.healthUrl}/healthz` },
  ];
  const costs: { target: (typeof targets)[number]; ms: number }[] = [];
  for (const target of targets) costs.push({ target, ms: await cost(target.url, target.method, target.headers) });
  costs.sort((a, b) => b.ms - a.ms);
  const shown = costs.slice(0, 5).map(({ target, ms }) => `${target.name} ${ms.toFixed(2)} ms`);
  console.log(`GET /trivial ${trivial.toFixed(2)} ms; the costliest of ${costs.length} routes: ${shown.join(", ")}`);
  const limit = Math.max(1, 4 * trivial);
  // The first requests of a kind run code that is not compiled yet: what is above the limit is measured once more.
  const above: [string, number][] = [];
  for (const { target } of costs.filter(({ ms }) => ms > limit)) {
    const ms = await cost(target.url, target.method, target.headers);
    if (ms > limit) above.push([target.name, ms]);
  }
  expect(above).toEqual([]);
  const zipped = await ask(`${server.apiUrl}/openapi.json`, { headers: { "accept-encoding": "gzip" } });
  expect(JSON.parse(gunzipSync(zipped).toString()).openapi).toBe("3.1.0");
});
