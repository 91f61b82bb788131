// `npm run bench -- metrics-ingest [--rounds 6] [--seconds 4] [--clients 4] [--lines 10000]`: exposition text of so many lines a body
// through the ingest of the real backend, against the same bodies posted straight to the same VictoriaMetrics, and through a second backend
// whose journal is not fsynced before 204 (METRICS_JOURNAL_FSYNC=never), in turns within one run. Reach: ≥ 0.5 of its rows/s, stretch 0.85.
// What the backend adds: signature, one pass of validation, the journal and its fsync, a second hop. `--lines 10 --clients 64`: what the
// fsync costs small requests. Prints a table of medians with their spread, CPU of both programs per body, and the same as JSON.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Pool } from "undici";
import { sign } from "../../common/protocol/signature.ts";
import {
  adminPassword,
  type BackendPlace,
  backendPlace,
  engineAuthorization,
  login,
  makeTenant,
  startBackend,
} from "../fixtures/backend-process.ts";
import { cpuMs, quantile, shown, summary } from "../fixtures/measure.ts";
import { temporaryFolder } from "../fixtures/processes.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "6" },
    seconds: { type: "string", default: "4" },
    clients: { type: "string", default: "4" },
    lines: { type: "string", default: "10000" },
  },
});
const [rounds, seconds, clients, lineCount] = [values.rounds, values.seconds, values.clients, values.lines].map(Number) as [
  number,
  number,
  number,
  number,
];
const WARM_UP_MS = 1500;

interface Way {
  readonly pool: Pool;
  readonly path: string;
  readonly headers: () => Record<string, string>;
  readonly programs: { readonly backend: number; readonly engine: number };
  readonly rowsPerSecond: number[];
  readonly cpuMs: { backend: number[]; engine: number[] };
  /** Of all answers, ms. */
  readonly times: number[];
}

await using stack = new AsyncDisposableStack();
const folder = stack.use(temporaryFolder());
const now = Date.now();
const bodies = Array.from({ length: 8 }, (_, body) => {
  const lines = Array.from({ length: lineCount }, (_, line) => {
    const labels = `method="GET",handler="/api/v1/things/${line % 97}",instance="10.0.0.${line % 50}:8080",namespace="prod",pod="thing-${line % 200}-abcde",le="${line % 12}"`;
    return `http_request_duration_seconds_bucket{${labels}} ${line * 3 + body}.5 ${now - body * 1000}\n`;
  });
  return Buffer.from(lines.join(""));
});
const { straight, route } = await waysTo("synced", "always");
const { route: unsynced } = await waysTo("unsynced", "never");
const ways = { "straight to VictoriaMetrics": straight, "through the signed route": route, "the same, journal without fsync": unsynced };
const [ofStraight, ofUnsynced]: [number[], number[]] = [[], []];
await measure();
print();

/** A backend of its own, straight past it and through it. */
async function waysTo(name: string, fsync: "always" | "never"): Promise<{ straight: Way; route: Way }> {
  const place = await backendPlace(join(folder.path, name), { METRICS_JOURNAL_FSYNC: fsync });
  const backend = stack.use(await startBackend(place));
  const tenant = await makeTenant(place.apiUrl, await login(place.apiUrl, "admin@localhost", adminPassword(place)), "bench");
  const engine = engineOf(place);
  const programs = { backend: backend.child.pid ?? 0, engine: engine.pid };
  const labels = ["org_id=direct", "host_id=h", "node=n"].map((label) => `extra_label=${label}`).join("&");
  const way = (url: string, path: string, headers: Way["headers"]): Way => {
    const pool = new Pool(url, { connections: clients });
    stack.defer(() => pool.destroy());
    return { pool, path, headers, programs, rowsPerSecond: [], cpuMs: { backend: [], engine: [] }, times: [] };
  };
  const authorization = engineAuthorization(place);
  return {
    straight: way(engine.url, `/api/v1/import/prometheus?${labels}`, () => ({ authorization })),
    route: way(place.apiUrl, "/ingest", () => sign(tenant.apiKey, "POST", "/ingest", Date.now() / 1000)),
  };
}

function engineOf({ dataDir }: BackendPlace): { pid: number; url: string } {
  const { pid, commandLine } = JSON.parse(readFileSync(join(dataDir, "victoria-metrics.pid"), "utf8")) as {
    pid: number;
    commandLine: string;
  };
  return { pid, url: `http://${/-httpListenAddr=([\d.:]+)/.exec(commandLine)?.[1]}` };
}

async function measure(): Promise<void> {
  for (const way of Object.values(ways)) await send(way, WARM_UP_MS);
  for (const { times } of Object.values(ways)) times.length = 0;
  for (let round = 0; round < rounds; round += 1) {
    const turns = Object.values(ways);
    for (const way of round % 2 === 0 ? turns : turns.toReversed()) await measureOnce(way);
    const newest = ({ rowsPerSecond }: Way): number => rowsPerSecond.at(-1) ?? Number.NaN;
    ofStraight.push(newest(route) / newest(straight));
    ofUnsynced.push(newest(route) / newest(unsynced));
  }
}

async function measureOnce(way: Way): Promise<void> {
  const { backend, engine } = way.programs;
  const before = { backend: cpuMs(backend), engine: cpuMs(engine), at: performance.now() };
  const sent = await send(way, seconds * 1000);
  way.rowsPerSecond.push((sent * lineCount * 1000) / (performance.now() - before.at));
  way.cpuMs.backend.push((cpuMs(backend) - before.backend) / sent);
  way.cpuMs.engine.push((cpuMs(engine) - before.engine) / sent);
}

async function send({ pool, path, headers, times }: Way, ms: number): Promise<number> {
  const until = performance.now() + ms;
  const client = async (_: unknown, number: number): Promise<number> => {
    let sent = 0;
    for (let at = performance.now(); at < until; sent += 1) {
      const answer = await pool.request({ method: "POST", path, headers: headers(), body: bodies[(number + sent) % bodies.length] });
      await answer.body.dump();
      if (answer.statusCode !== 204) throw new Error(`${path}: ${answer.statusCode}`);
      times.push(performance.now() - at);
      at = performance.now();
    }
    return sent;
  };
  const counts = await Promise.all(Array.from({ length: clients }, client));
  return counts.reduce((sum, count) => sum + count, 0);
}

function print(): void {
  const result = Object.fromEntries(Object.entries(ways).map(([name, way]) => [name, figuresOf(way)]));
  console.table(result);
  console.log(`rows/s, of straight to VictoriaMetrics: ${shown(ofStraight, 2)}; of the journal without fsync: ${shown(ofUnsynced, 2)}`);
  const ratios = { ofStraight: summary(ofStraight), ofUnsynced: summary(ofUnsynced) };
  console.log(JSON.stringify({ bench: "metrics-ingest", options: values, bytes: bodies[0]?.length, result, ratios }));
}

function figuresOf({ rowsPerSecond, cpuMs: cpu, times }: Way): Record<string, string> {
  const sorted = times.toSorted((a, b) => a - b);
  return {
    "rows/s": shown(rowsPerSecond),
    "answer ms, p50": quantile(sorted, 0.5).toFixed(1),
    p99: quantile(sorted, 0.99).toFixed(1),
    "backend CPU ms/body": summary(cpu.backend).median.toFixed(3),
    "engine CPU ms/body": summary(cpu.engine).median.toFixed(3),
  };
}
