// PromQL compliance: sends each query to Prometheus and to another program with the same samples, and compares the results as the official
// tester does: the same series, times and values within 1e-5. The programs are Prometheus as the reference, the backend, and
// VictoriaMetrics alone.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeBody } from "../../backend/ingest/remote-write/write-request.fixture.ts";
import { toolPath } from "../../hack/fetch-tools.ts";
import { eventually, freePorts } from "../fixtures/processes.ts";
import { demoMinutes, type PromqlCase, SCRAPE_MS } from "./promql-cases.ts";

/** A program with Prometheus' API. */
export interface Target {
  readonly writeUrl: string;
  /** Empty: none is needed. */
  readonly writeToken: string;
  readonly queryUrl: string;
  readonly readToken: string;
  /** Labels that it adds to every series. */
  readonly added: readonly string[];
}

export interface Difference extends PromqlCase {
  readonly why: string;
}

export interface PromqlResult {
  readonly cases: number;
  readonly differences: readonly Difference[];
}

const READY_WITHIN_MS = 60_000;
const QUERY_WITHIN_MS = 60_000;
/** The range of the official tester: ten minutes, twelve minutes ago, every ten seconds, aligned for VictoriaMetrics. */
const [STEP_MS, RANGE_MS, AGE_MS, DATA_MS] = [10_000, 600_000, 720_000, 5_400_000];
const FRACTION = 1e-5;

export interface Program extends AsyncDisposable {
  readonly url: string;
}

/** Keeps its data in `folder`. */
export async function startPrometheus(program: string, folder: string): Promise<Program> {
  mkdirSync(folder);
  writeFileSync(join(folder, "prometheus.yml"), "{}\n");
  return await start(program, folder, (address) => [
    `--config.file=${join(folder, "prometheus.yml")}`,
    `--storage.tsdb.path=${join(folder, "data")}`,
    `--web.listen-address=${address}`,
    "--web.enable-remote-write-receiver",
    "--enable-feature=promql-at-modifier,promql-negative-offset",
  ]);
}

export async function startVictoriaMetrics(folder: string): Promise<Program> {
  mkdirSync(folder);
  return await start(await toolPath("victoria-metrics"), folder, (address) => [
    `-storageDataPath=${join(folder, "data")}`,
    `-httpListenAddr=${address}`,
    "-search.latencyOffset=0s",
  ]);
}

async function start(program: string, folder: string, flags: (address: string) => string[]): Promise<Program> {
  const [port = 0] = await freePorts(1);
  const out = openSync(join(folder, "out"), "a");
  const child = spawn(program, flags(`127.0.0.1:${port}`), { env: {}, stdio: ["ignore", out, out] });
  const ended = once(child, "exit");
  const url = `http://127.0.0.1:${port}`;
  await eventually(`${program} is ready`, async () => (await fetch(`${url}/-/ready`)).ok, READY_WITHIN_MS);
  return {
    url,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** Sends the demo metrics to each target, oldest first; the end of the data. */
export async function loadDemo(targets: readonly Target[]): Promise<number> {
  const endMs = Math.floor(Date.now() / STEP_MS) * STEP_MS;
  for (const series of demoMinutes(endMs - DATA_MS, endMs)) {
    const body = writeBody(series);
    for (const { writeUrl, writeToken } of targets) {
      const headers = {
        "content-type": "application/x-protobuf",
        "content-encoding": "snappy",
        "x-prometheus-remote-write-version": "0.1.0",
        ...authorization(writeToken),
      };
      const answer = await fetch(writeUrl, { method: "POST", headers, body });
      if (answer.status !== 204) throw new Error(`${writeUrl} refuses the samples: ${answer.status} ${await answer.text()}`);
    }
  }
  for (const target of targets) await eventually(`${target.queryUrl} has every sample`, async () => await hasEverySample(target, endMs));
  return endMs;
}

/** What a program has taken can be queried about a second later. */
async function hasEverySample(target: Target, endMs: number): Promise<boolean> {
  const query = `min(count_over_time(demo_batch_last_success_timestamp_seconds[${DATA_MS / 1000 + 60}s]))`;
  const answer = await ask(target, query, { start: String(endMs / 1000 + 30), end: String(endMs / 1000 + 30), step: "1" });
  return answer.error === undefined && [...answer.series.values()].some(([point]) => Number(point?.[1]) === DATA_MS / SCRAPE_MS);
}

export async function comparePromql(
  reference: Target,
  target: Target,
  cases: readonly PromqlCase[],
  dataEndMs: number,
): Promise<PromqlResult> {
  const end = dataEndMs - AGE_MS;
  const range = { start: String((end - RANGE_MS) / 1000), end: String(end / 1000), step: String(STEP_MS / 1000) };
  const differences: Difference[] = [];
  for (const one of cases) {
    const [expected, found] = [await ask(reference, one.query, range), await ask(target, one.query, range)];
    if ((expected.error !== undefined) !== one.shouldFail)
      throw new Error(`Prometheus itself answers ${one.query} otherwise than expected: ${expected.error ?? "no error"}`);
    const why = difference(expected, found);
    if (why !== undefined) differences.push({ ...one, why });
  }
  return { cases: cases.length, differences };
}

function authorization(token: string): Record<string, string> {
  return token === "" ? {} : { authorization: `Bearer ${token}` };
}

type Points = ReadonlyMap<string, readonly (readonly [number, string])[]>;
type Answer = { readonly error?: undefined; readonly series: Points } | { readonly error: string };

async function ask(target: Target, query: string, range: Readonly<Record<string, string>>): Promise<Answer> {
  const url = `${target.queryUrl}/api/v1/query_range?${new URLSearchParams({ query, ...range }).toString()}`;
  const answer = await fetch(url, { headers: authorization(target.readToken), signal: AbortSignal.timeout(QUERY_WITHIN_MS) });
  const body = (await answer.json()) as {
    status: string;
    error?: string;
    message?: string;
    data?: { result: { metric: Record<string, string>; values: [number, string][] }[] };
  };
  if (body.status !== "success" || body.data === undefined) return { error: body.error ?? body.message ?? String(answer.status) };
  return { series: new Map(body.data.result.map(({ metric, values }) => [keyOf(metric, target.added), values])) };
}

function keyOf(metric: Readonly<Record<string, string>>, added: readonly string[]): string {
  const labels = Object.entries(metric).filter(([name]) => !added.includes(name));
  return JSON.stringify(labels.sort(([one], [other]) => (one < other ? -1 : 1)));
}

function difference(expected: Answer, found: Answer): string | undefined {
  if (expected.error !== undefined) return found.error === undefined ? "answered; Prometheus refuses it" : undefined;
  if (found.error !== undefined) return `refused: ${found.error}`;
  const missing = [...expected.series.keys()].filter((key) => !found.series.has(key));
  const additional = [...found.series.keys()].filter((key) => !expected.series.has(key));
  if (missing.length + additional.length > 0)
    return `${missing.length} series missing, ${additional.length} additional, such as ${missing[0] ?? additional[0]}`;
  for (const [key, points] of expected.series) {
    const others = found.series.get(key) ?? [];
    if (points.length !== others.length) return `${others.length} points instead of ${points.length}`;
    const at = points.findIndex(([time, value], index) => time !== others[index]?.[0] || !isNear(value, others[index][1]));
    if (at >= 0) return `${others[at]?.join(" ")} instead of ${points[at]?.join(" ")}`;
  }
  return undefined;
}

function isNear(one: string, other: string): boolean {
  const [first, second] = [one, other].map((text) => Number(text.replace("Inf", "Infinity"))) as [number, number];
  if (Number.isNaN(first) || Number.isNaN(second)) return one === other;
  return first === second || Math.abs(first - second) <= FRACTION * Math.min(Math.abs(first), Math.abs(second));
}
