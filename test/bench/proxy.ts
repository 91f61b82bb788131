// Bench: the proxy hop for logs and traces, against a bare `node:http` pipe between the same client and the same sink, without signing.
// Reach: ≥ 0.9 of its throughput, ≤ 1.15 of its CPU per MB.
// Usage: node test/bench/proxy.ts [--rounds 9] [--body-kb 4000] [--megabytes 200] [--clients 8] [--json]
// 4 MB is the size of the collector's batches (agent/collector/config/collector-config.ts). Client, sink and the two hops are processes of their own; rounds
// are interleaved; medians with quartiles.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { Agent, createServer, request as httpRequest, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { parseArgs } from "node:util";
import { pino } from "pino";
import { startProxy } from "../../agent/proxy/server.ts";
import { createUpstream } from "../../agent/upstream/pool.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "9" },
    "body-kb": { type: "string", default: "4000" },
    megabytes: { type: "string", default: "200" },
    clients: { type: "string", default: "8" },
    json: { type: "boolean", default: false },
  },
});

async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** No hop finds its connection closed because the other had the last round. */
const PATIENT = { keepAliveTimeout: 600_000 };

function sink(): Promise<number> {
  return listen(createServer(PATIENT, (request, response) => void request.resume().on("end", () => response.writeHead(204).end())));
}

/** The least that a hop can do: headers and bytes both ways, connections kept. */
function pipe(port: number): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  return listen(
    createServer(PATIENT, (incoming, response) => {
      const { "content-type": type, "content-length": length } = incoming.headers;
      const options = {
        agent,
        host: "127.0.0.1",
        port,
        method: "POST",
        path: "/ingest/logs/otlp",
        headers: { "content-type": type, "content-length": length },
      };
      const outgoing = httpRequest(options, (answer) => {
        answer.resume();
        response.writeHead(answer.statusCode === 204 ? 200 : 503).end("{}");
      });
      incoming.pipe(outgoing);
    }),
  );
}

async function hop(port: number): Promise<number> {
  const credential = { id: "host", apiKey: "ak_bench", keyCreatedAt: "2026-11-01T00:00:00Z" };
  const proxy = await startProxy({
    listen: { host: "127.0.0.1", port: 0 },
    upstream: createUpstream({ backendUrl: `http://127.0.0.1:${port}` }),
    credentials: { current: () => credential, refresh: async () => credential },
    clock: { nowUnixS: () => Date.now() / 1000 },
    compression: "none",
    log: pino({ level: "silent" }),
  });
  return proxy.port;
}

/** A process of this file in another role; it tells its port, and its CPU time and memory when asked. */
async function startRole(role: string, port = 0): Promise<{ child: ChildProcess; port: number }> {
  const child = fork(import.meta.filename, [role, String(port)]);
  const [message] = (await once(child, "message")) as [{ port: number }];
  return { child, port: message.port };
}

async function playRole(role: string, port: number): Promise<void> {
  const own = await { sink, pipe: () => pipe(port), proxy: () => hop(port) }[role as "sink"]();
  process.on("message", () => process.send?.({ cpu: process.cpuUsage(), rss: process.memoryUsage.rss() }));
  process.on("disconnect", () => process.exit());
  process.send?.({ port: own });
}

interface Usage {
  cpu: NodeJS.CpuUsage;
  rss: number;
}

async function usage(child: ChildProcess): Promise<Usage> {
  child.send("usage");
  return ((await once(child, "message")) as [Usage])[0];
}

async function send(agent: Agent, port: number, body: Buffer): Promise<void> {
  const headers = { "content-type": "application/json", "content-length": body.length };
  const request = httpRequest({ agent, host: "127.0.0.1", port, method: "POST", path: "/v1/logs", headers });
  request.end(body);
  const [response] = (await once(request, "response")) as [NodeJS.ReadableStream & { statusCode: number }];
  response.resume();
  await once(response, "end");
  if (response.statusCode !== 200) throw new Error(`answer ${response.statusCode}`);
}

async function round({ child, port }: { child: ChildProcess; port: number }, body: Buffer, requests: number, clients: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const before = await usage(child);
  const start = performance.now();
  let left = requests;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (left-- > 0) await send(agent, port, body);
    }),
  );
  const seconds = (performance.now() - start) / 1000;
  const after = await usage(child);
  agent.destroy();
  const megabytes = (requests * body.length) / 1e6;
  const cpuMs = (after.cpu.user + after.cpu.system - before.cpu.user - before.cpu.system) / 1000;
  return { throughput: megabytes / seconds, cpuMsPerMb: cpuMs / megabytes, rssMb: after.rss / 1e6 };
}

function logs(bytes: number): Buffer {
  const record = { timeUnixNano: "1763714400000000000", severityText: "INFO", body: { stringValue: `GET /api/items ${"x".repeat(150)}` } };
  const logRecords = Array.from({ length: Math.ceil(bytes / JSON.stringify(record).length) }, () => record);
  return Buffer.from(JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] }));
}

function summary(numbers: number[]): string {
  const sorted = numbers.toSorted((a, b) => a - b);
  const at = (quantile: number): string => (sorted[Math.floor((sorted.length - 1) * quantile)] ?? Number.NaN).toFixed(2);
  return `${at(0.5)} (${at(0.25)}–${at(0.75)})`;
}

async function main(): Promise<void> {
  const body = logs(Number(values["body-kb"]) * 1000);
  const requests = Math.ceil((Number(values.megabytes) * 1e6) / body.length);
  const target = await startRole("sink");
  const hops = { pipe: await startRole("pipe", target.port), proxy: await startRole("proxy", target.port) };
  const run = (name: keyof typeof hops) => round(hops[name], body, requests, Number(values.clients));
  const all: { pipe: Awaited<ReturnType<typeof run>>; proxy: Awaited<ReturnType<typeof run>> }[] = [];
  for (const name of ["pipe", "proxy"] as const) await run(name);
  for (let index = 0; index < Number(values.rounds); index++) {
    // Who goes first changes, so that a machine that slows down or speeds up favours neither.
    if (index % 2 === 0) all.push({ pipe: await run("pipe"), proxy: await run("proxy") });
    else {
      const proxy = await run("proxy");
      all.push({ proxy, pipe: await run("pipe") });
    }
  }
  const table = {
    "throughput MB/s": {
      pipe: summary(all.map((each) => each.pipe.throughput)),
      proxy: summary(all.map((each) => each.proxy.throughput)),
      ratio: summary(all.map((each) => each.proxy.throughput / each.pipe.throughput)),
    },
    "CPU ms per MB": {
      pipe: summary(all.map((each) => each.pipe.cpuMsPerMb)),
      proxy: summary(all.map((each) => each.proxy.cpuMsPerMb)),
      ratio: summary(all.map((each) => each.proxy.cpuMsPerMb / each.pipe.cpuMsPerMb)),
    },
    "resident MB": { pipe: summary(all.map((each) => each.pipe.rssMb)), proxy: summary(all.map((each) => each.proxy.rssMb)), ratio: "" },
  };
  if (values.json) console.log(JSON.stringify({ bench: "proxy", options: values, node: process.version, table }));
  else console.table(table);
  for (const { child } of [target, ...Object.values(hops)]) child.disconnect();
}

const [role, port] = positionals;
await (role === undefined ? main() : playRole(role, Number(port)));
