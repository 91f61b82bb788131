// Logs of pods in the formats of container runtimes, through the real collector with the cluster agent's configuration, and through the
// proxy: the fields of a line, and that a collector that is killed while it reads loses no line and duplicates none. There is no API server,
// so Kubernetes attributes are left out.
import { appendFileSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { configFromSettings } from "../../agent/collector/config/config-from-settings.ts";
import { FILES_TOKEN_VARIABLE, START_VARIABLE } from "../../agent/collector/config/collector-config.ts";
import { compareLines, Sink } from "../../agent/collector/supervision/sink.fixture.ts";
import { Supervisor } from "../../agent/collector/supervision/supervisor.ts";
import { type Proxy, startProxy } from "../../agent/proxy/server.ts";
import { StoredBatches } from "../../agent/collector/files/stored-batches.ts";
import { readSettings } from "../../agent/settings.ts";
import { createUpstream, type Upstream } from "../../agent/upstream/pool.ts";
import type { Json } from "../../backend/ingest/json-message.ts";
import { markOf, withLine } from "../../backend/ingest/otlp/file-lines.ts";
import { toolPath } from "../../hack/fetch-tools.ts";
import { eventually, freeAddresses, temporaryFolder } from "../fixtures/processes.ts";

const POD = "shop_checkout-7d9c5b6f4d-abcde_0b5a3c1e-0000-4000-8000-000000000001/server";
const KILLS = 2;

let folder: ReturnType<typeof temporaryFolder>;
let sink: Sink;
let supervisor: Supervisor;
let upstream: Upstream;
let storedBatches: StoredBatches;
let proxy: Proxy;

beforeEach(async () => {
  folder = temporaryFolder();
  sink = await Sink.start();
  sink.parseLine = (record, scope) => {
    const mark = markOf(scope as Json);
    return mark === undefined ? record : withLine(record as Json, mark, Date.now());
  };
  mkdirSync(join(folder.path, "pods", POD), { recursive: true });
  writeFileSync(join(folder.path, "overlay.yaml"), "processors: {k8s_attributes/files: null, k8s_attributes: null}\n");
  const [grpc, http, proxyListen] = await freeAddresses(3);
  const { settings } = readSettings("cluster", {
    BACKEND_URL: sink.url,
    CLUSTER_NAME: "test",
    NODE_NAME: "node-1",
    NODE_IP: "127.0.0.1",
    POD_NAMESPACE: "telemetry",
    POD_UID: "8a4f",
    KUBERNETES_SERVICE_HOST: "127.0.0.1",
    STATE_DIR: join(folder.path, "state"),
    COLLECTOR_CONFIG_FILE: join(folder.path, "overlay.yaml"),
    PROXY_LISTEN: proxyListen,
    OTLP_GRPC_LISTEN: grpc,
    OTLP_HTTP_LISTEN: http,
    SIGNALS: "logs",
  });
  const config = configFromSettings(settings).replaceAll("/var/log/pods", join(folder.path, "pods"));
  const log = pino({ level: "silent" });
  mkdirSync(settings.stateDir);
  upstream = createUpstream({ backendUrl: sink.url });
  storedBatches = new StoredBatches({ folder: settings.stateDir, log });
  const credential = { id: "cluster", apiKey: "ak_of_the_sink", keyCreatedAt: new Date().toISOString() };
  const credentials = { current: () => credential, refresh: async () => Promise.resolve(credential) };
  const clock = { nowUnixS: () => Date.now() / 1000 };
  proxy = await startProxy({ listen: settings.proxy, upstream, credentials, clock, compression: "gzip", storedBatches, log });
  supervisor = new Supervisor({
    program: await toolPath("otelcol-contrib"),
    stateDir: settings.stateDir,
    memoryMib: 200,
    stopGraceMs: 10_000,
    env: { [FILES_TOKEN_VARIABLE]: storedBatches.token },
    onStart: () => ({ [START_VARIABLE]: String(storedBatches.collectorStarts()) }),
    log,
    timing: { firstBackoffMs: 20, maxBackoffMs: 20 },
  });
  await supervisor.start(() => config);
});
afterEach(async () => {
  await supervisor[Symbol.asyncDispose]();
  await proxy[Symbol.asyncDispose]();
  storedBatches[Symbol.dispose]();
  await upstream[Symbol.asyncDispose]();
  await sink[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

function append(text: string, file = "0.log"): void {
  appendFileSync(join(folder.path, "pods", POD, file), text);
}

function cri(line: string, tag: "F" | "P" = "F"): string {
  return `${new Date().toISOString().replace("Z", "123456Z")} stdout ${tag} ${line}\n`;
}

test("restores a line of containerd, CRI-O or Docker as the container wrote it, with its time, stream and pod", async () => {
  append(
    [
      "2026-11-21T10:00:00.123456789Z stdout F from containerd ",
      "2026-11-21T12:00:01.5+02:00 stderr F from CRI-O, with two  spaces",
      "2026-11-21T10:00:02Z stdout P in ",
      "2026-11-21T10:00:02.1Z stdout P three",
      "2026-11-21T10:00:02.2Z stdout F  parts",
      "2026-11-21T10:00:03Z stdout F ",
      '2026-11-21T10:00:04Z stdout F {"message": "JSON of an application", "log": "its own"}',
      JSON.stringify({ log: "from Docker\n", stream: "stderr", time: "2026-11-21T10:00:05.000000001Z" }),
      "of no runtime at all",
      "",
    ].join("\n"),
  );
  await eventually("all lines are there", () => sink.lines.length === 7);
  const records = sink.records.toSorted((a, b) => Number(BigInt(a.timeUnixNano ?? 0) - BigInt(b.timeUnixNano ?? 0)));
  const seen = records.map(({ timeUnixNano, body, attributes }) => [
    timeUnixNano && new Date(Number(timeUnixNano) / 1e6).toISOString().slice(11, -1),
    attributes["log.iostream"],
    body,
  ]);
  expect(seen).toEqual([
    [undefined, undefined, "of no runtime at all"],
    ["10:00:00.123", "stdout", "from containerd "],
    ["10:00:01.500", "stderr", "from CRI-O, with two  spaces"],
    ["10:00:02.000", "stdout", "in three parts"],
    ["10:00:03.000", "stdout", ""],
    ["10:00:04.000", "stdout", '{"message": "JSON of an application", "log": "its own"}'],
    ["10:00:05.000", "stderr", "from Docker\n"],
  ]);
  for (const { attributes, resource } of records) {
    expect(Object.keys(attributes).filter((name) => name !== "log.iostream")).toEqual([]);
    expect(resource["log.file.path"]).toMatch(/\/server\/0\.log$/);
    expect(resource).toMatchObject({
      "k8s.namespace.name": "shop",
      "k8s.pod.name": "checkout-7d9c5b6f4d-abcde",
      "k8s.pod.uid": "0b5a3c1e-0000-4000-8000-000000000001",
      "k8s.container.name": "server",
      "k8s.container.restart_count": "0",
      "service.name": "server",
      "k8s.node.name": "node-1",
    });
  }
  expect(records[1]?.timeUnixNano).toBe("1795255200123456789");
});

test("joins the parts of long lines of standard output and standard error separately if they alternate", async () => {
  const part = (stream: string, tag: string, text: string): string => `2026-11-21T10:00:00.123456789Z ${stream} ${tag} ${text}\n`;
  append(
    part("stdout", "P", "a1 ") +
      part("stderr", "P", "b1 ") +
      part("stdout", "P", "a2 ") +
      part("stderr", "F", "b2") +
      part("stdout", "F", "a3"),
  );
  await eventually("both lines arrive", () => sink.lines.length === 2);
  expect(sink.records.map(({ attributes, body }) => `${attributes["log.iostream"]} ${body}`).toSorted()).toEqual([
    "stderr b1 b2",
    "stdout a1 a2 a3",
  ]);
});

test("loses no line and repeats none if it is killed while it reads much, and the kubelet rotates the file", async () => {
  let written = 0;
  for (let kill = 0; kill < KILLS; kill++) {
    await vi.waitFor(() => expect(supervisor.status().state).toBe("running"), { timeout: 50_000 });
    const upTo = sink.lines.length + kill * 500;
    append(Array.from({ length: 8000 }, () => cri(`line ${written++}`)).join(""));
    while (sink.lines.length <= upTo) await nextTurn();
    const { pid } = supervisor.status();
    process.kill(pid as number, "SIGKILL");
    renameSync(join(folder.path, "pods", POD, "0.log"), join(folder.path, "pods", POD, `0.log.20261122-07000${kill}`));
    append(cri(`line ${written++}`));
    await vi.waitFor(() => expect(supervisor.status().pid).not.toBe(pid), { timeout: 50_000 });
    await eventually("every line is there", () => compareLines(sink.lines, written).missing === 0, 120_000);
  }
  append(cri(`line ${written++}`));
  await eventually("the last line is there", () => sink.lines.includes(`line ${written - 1}`));
  const outcome = compareLines(sink.lines, written);
  console.log({ kills: KILLS, written, ...outcome });
  expect(outcome).toEqual({ missing: 0, doubled: 0 });
});
