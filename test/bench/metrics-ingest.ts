// `npm run bench -- metrics-ingest [--rounds 6] [--seconds 4] [--clients 4]`: exposition text of 10,000 lines a body through the
// ingest of the real backend, against the same bodies posted straight to the same VictoriaMetrics, in turns within one run. Reach: ≥ 0.5 of
// its rows/s, stretch 0.85. What the backend adds: signature, one pass of validation, the journal, a second hop. Prints a table of
// medians with their spread, CPU of both programs per body, and the same as JSON.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Pool } from "undici";
import { sign } from "../../agent/protocol/signature.ts";
import { adminPassword, backendPlace, engineAuthorization, login, makeTenant, startBackend } from "../fixtures/backend-process.ts";
import { temporaryFolder } from "../fixtures/processes.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "6" },
    seconds: { type: "string", default: "4" },
    clients: { type: "string", default: "4" },
  },
});
const rounds = Number(values.rounds);
const seconds = Number(values.seconds);
const clients = Number(values.clients);
const LINES = 10_000;
const CLOCK_TICKS_PER_S = 100;

using folder = temporaryFolder();
const place = await backendPlace(folder.path);
await using backend = await startBackend(place);
const operator = await login(place.apiUrl, "admin@localhost", adminPassword(place));
const tenant = await makeTenant(place.apiUrl, operator, "bench");
const engine = JSON.parse(readFileSync(join(place.dataDir, "victoria-metrics.pid"), "utf8")) as { pid: number; commandLine: string };
const engineUrl = `http://${/-httpListenAddr=([\d.:]+)/.exec(engine.commandLine)?.[1]}`;
const programs = { backend: backend.child.pid ?? 0, engine: engine.pid };

const now = Date.now();
const bodies = Array.from({ length: 8 }, (_, body) => {
  const lines = Array.from({ length: LINES }, (_, line) => {
    const labels = `method="GET",handler="/api/v1/things/${line % 97}",instance="10.0.0.${line % 50}:8080",namespace="prod",pod="thing-${line % 200}-abcde",le="${line % 12}"`;
    return `http_request_duration_seconds_bucket{${labels}} ${line * 3 + body}.5 ${now - body * 1000}\n`;
  });
  return Buffer.from(lines.join(""));
});

interface Way {
  readonly name: string;
  readonly pool: Pool;
  readonly path: string;
  readonly headers: () => Record<string, string>;
  readonly rowsPerSecond: number[];
  readonly cpuMs: { backend: number[]; engine: number[] };
}

function way(name: string, url: string, path: string, headers: Way["headers"]): Way {
  return { name, pool: new Pool(url, { connections: clients }), path, headers, rowsPerSecond: [], cpuMs: { backend: [], engine: [] } };
}

const labels = ["org_id=direct", "host_id=h", "node=n"].map((label) => `extra_label=${label}`).join("&");
const straight = way("straight to VictoriaMetrics", engineUrl, `/api/v1/import/prometheus?${labels}`, () => ({
  authorization: engineAuthorization(place),
}));
const route = way("through the signed route", place.apiUrl, "/ingest", () => ({
  ...sign(tenant.apiKey, "POST", "/ingest", Date.now() / 1000),
}));

async function send(through: Way, ms: number): Promise<number> {
  const until = Date.now() + ms;
  const counts = await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      let sent = 0;
      for (; Date.now() < until; sent += 1) {
        const answer = await through.pool.request({
          method: "POST",
          path: through.path,
          headers: through.headers(),
          body: bodies[(client + sent) % bodies.length],
        });
        await answer.body.dump();
        if (answer.statusCode !== 204) throw new Error(`${through.name}: ${answer.statusCode}`);
      }
      return sent;
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

/** User and system time of a process since its start. */
function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / CLOCK_TICKS_PER_S;
}

async function round(through: Way): Promise<void> {
  const before = { backend: cpuMs(programs.backend), engine: cpuMs(programs.engine), at: performance.now() };
  const sent = await send(through, seconds * 1000);
  through.rowsPerSecond.push((sent * LINES * 1000) / (performance.now() - before.at));
  for (const program of ["backend", "engine"] as const) through.cpuMs[program].push((cpuMs(programs[program]) - before[program]) / sent);
}

for (const through of [straight, route]) await send(through, 1500);
const ratios: number[] = [];
for (let n = 0; n < rounds; n += 1) {
  for (const through of n % 2 === 0 ? [straight, route] : [route, straight]) await round(through);
  ratios.push((route.rowsPerSecond.at(-1) ?? 0) / (straight.rowsPerSecond.at(-1) ?? 1));
}

function summary(numbers: readonly number[]): { median: number; least: number; most: number } {
  const sorted = [...numbers].sort((a, b) => a - b);
  return { median: sorted[Math.floor(sorted.length / 2)] ?? 0, least: sorted[0] ?? 0, most: sorted.at(-1) ?? 0 };
}

function table(through: Way) {
  return {
    rows_per_second: summary(through.rowsPerSecond),
    backend_cpu_ms_per_body: summary(through.cpuMs.backend).median,
    engine_cpu_ms_per_body: summary(through.cpuMs.engine).median,
  };
}

const result = {
  lines: LINES,
  bytes: bodies[0]?.length,
  clients,
  rounds,
  seconds,
  straight: table(straight),
  route: table(route),
  ratio: summary(ratios),
};
console.table(
  Object.fromEntries(
    [straight, route].map((through) => {
      const { rows_per_second: rows, ...cpu } = table(through);
      return [
        through.name,
        {
          "rows/s": Math.round(rows.median),
          spread: `${Math.round(rows.least)}–${Math.round(rows.most)}`,
          "backend CPU ms/body": cpu.backend_cpu_ms_per_body.toFixed(2),
          "engine CPU ms/body": cpu.engine_cpu_ms_per_body.toFixed(2),
        },
      ];
    }),
  ),
);
console.log(`ratio ${result.ratio.median.toFixed(2)} (${result.ratio.least.toFixed(2)}–${result.ratio.most.toFixed(2)})`);
console.log(JSON.stringify(result));
await Promise.all([straight.pool.close(), route.pool.close()]);
