// `npm run simulate`: runs histories of the write path on simulated machines. `--help` has the options.
import { fork } from "node:child_process";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { replaceModules } from "./hooks.ts";
import { MUTANTS } from "./mutants.ts";

const USAGE = `usage: npm run simulate -- [OPTIONS]

Runs the write path of logs, spans and metrics on simulated disks, engines and clocks. Each seed is one history of bodies, kills, power
cuts and failures; nothing that was acknowledged may be missing or stored twice.

  --seed N         the first seed, or, without --histories, the only one: prints its history (default 1)
  --histories N    how many seeds
  --minutes N      runs until this time is over instead
  --only KINDS     of backend, replicas, metrics, agent, with commas: leaves out the seeds of other histories
  --processes N    default: the number of cores
  --mutants        for each fault in mutants.ts, the first seed that finds it, of the kept ones and up to --histories (default 20,000)
  --mutant NAME    only this one
  --help`;

/** Histories of one message. */
const CHUNK = 200;
const MAX_PROBLEMS = 5;
const MUTANT_HISTORIES = 20_000;
/** Each found a fault of the product. They mean something else once histories are drawn otherwise. */
const KEPT_SEEDS = [
  77_010_633, 300_024_550, 1181, 8877, 2576, 12_651, 500_026_331, 910_026_636, 910_036_746, 910_057_521, 910_086_536, 910_088_171,
  400_028_156, 400_020_071, 1_000_001_947, 30_391, 31_171, 31_416, 31_931, 32_956, 36_356, 40_101, 5_015_521, 60_007_590, 60_000_161,
  60_012_436, 60_016_111, 70_020_721, 70_034_926, 70_056_811, 70_065_401, 70_086_316, 73_045_181, 25_806, 80_006_572, 80_012_936,
  80_013_056, 80_016_621, 80_091_611, 81_023_331, 83_017_901,
];

interface Job {
  readonly firstSeed: number;
  readonly histories: number;
}

interface Report {
  readonly histories: number;
  readonly events: number;
  readonly hits: Record<string, number>;
  readonly problems: readonly { readonly seed: number; readonly problem: string }[];
}

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    histories: { type: "string" },
    minutes: { type: "string" },
    only: { type: "string" },
    processes: { type: "string", default: String(availableParallelism()) },
    mutants: { type: "boolean", default: false },
    mutant: { type: "string" },
    help: { type: "boolean", default: false },
  },
});

if (process.send) await runJobs(values.mutant);
else if (values.help) console.log(USAGE);
else if (values.mutants) await findMutants(Number(values.histories ?? MUTANT_HISTORIES));
else if (values.histories === undefined && values.minutes === undefined) await printHistory(Number(values.seed));
else await simulate();

/** In a child process: runs the histories that the parent asks for. */
async function runJobs(mutantName: string | undefined): Promise<void> {
  replaceModules(MUTANTS.find(({ name }) => name === mutantName));
  const { kindOf, runSeed } = await import("./history.ts");
  let unhandled: string | undefined;
  process.on("unhandledRejection", (error) => (unhandled = error instanceof Error ? error.message : "a rejection"));
  process.once("disconnect", () => process.exit());
  process.on("message", async ({ firstSeed, histories }: Job) => {
    const hits: Record<string, number> = {};
    const problems: { seed: number; problem: string }[] = [];
    let events = 0;
    let done = 0;
    for (let seed = firstSeed; seed < firstSeed + histories; seed += 1) {
      if (values.only !== undefined && !values.only.split(",").includes(kindOf(seed))) continue;
      const outcome = await runSeed(seed).catch((error: unknown) => ({ problem: String(error), hits: {}, events: 0 }));
      const problem = outcome.problem ?? (unhandled === undefined ? undefined : `unhandled: ${unhandled}`);
      unhandled = undefined;
      events += outcome.events;
      done += 1;
      for (const [name, count] of Object.entries(outcome.hits)) hits[name] = (hits[name] ?? 0) + count;
      if (problem !== undefined) problems.push({ seed, problem });
      if (problem !== undefined && mutantName !== undefined) break;
    }
    // The parent may have ended.
    process.send?.({ histories: done, events, hits, problems } satisfies Report, undefined, undefined, () => undefined);
  });
}

async function simulate(): Promise<void> {
  const startedMs = Date.now();
  const endMs = values.minutes === undefined ? Number.POSITIVE_INFINITY : startedMs + Number(values.minutes) * 60_000;
  const limit = values.histories === undefined ? Number.POSITIVE_INFINITY : Number(values.histories);
  const totals = { histories: 0, events: 0, hits: {} as Record<string, number> };
  const problems: Report["problems"][number][] = [];
  let taken = 0;
  const kept = KEPT_SEEDS.values();
  const nextJob = (): Job | undefined => {
    const seed = kept.next().value;
    if (seed !== undefined) return { firstSeed: seed, histories: 1 };
    const histories = Math.min(CHUNK, limit - taken);
    if (histories === 0 || Date.now() >= endMs || problems.length >= MAX_PROBLEMS) return undefined;
    taken += histories;
    return { firstSeed: Number(values.seed) + taken - histories, histories };
  };
  const worker = async (): Promise<void> => {
    using child = startChild();
    for (let job = nextJob(); job; job = nextJob()) {
      const report = await child.ask(job);
      totals.histories += report.histories;
      totals.events += report.events;
      for (const [name, count] of Object.entries(report.hits)) totals.hits[name] = (totals.hits[name] ?? 0) + count;
      problems.push(...report.problems);
    }
  };
  await Promise.all(Array.from({ length: Number(values.processes) }, worker));
  const seconds = (Date.now() - startedMs) / 1000;
  console.log("faults, and how often they happened or were met by a call:");
  for (const [name, count] of Object.entries(totals.hits).toSorted(([, a], [, b]) => b - a)) console.log(`  ${name.padEnd(28)} ${count}`);
  const speed = Math.round((totals.histories / seconds) * 600);
  console.log(`${totals.histories} histories, ${totals.events} events, ${seconds.toFixed(0)} s (${speed} histories in 10 minutes)`);
  for (const { seed, problem } of problems) console.log(`failed: seed ${seed}: ${problem}; npm run simulate -- --seed ${seed} prints it`);
  console.log(problems.length === 0 ? "no problem found" : `${problems.length} problems found`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}

async function printHistory(seed: number): Promise<void> {
  replaceModules();
  const { shrink } = await import("./history.ts");
  const { problem, trace } = await shrink(seed);
  console.log(trace.join("\n"));
  console.log(
    problem === undefined ? `seed ${seed}: no problem` : `seed ${seed}: ${problem} (the steps that are not needed for it are left out)`,
  );
  process.exitCode = problem === undefined ? 0 : 1;
}

async function findMutants(limit: number): Promise<void> {
  const mutants = MUTANTS.filter(({ name }) => values.mutant === undefined || name === values.mutant);
  const left = mutants.values();
  const jobs = [
    ...KEPT_SEEDS.map((firstSeed): Job => ({ firstSeed, histories: 1 })),
    ...Array.from({ length: Math.ceil(limit / CHUNK) }, (_, at): Job => ({ firstSeed: 1 + at * CHUNK, histories: CHUNK })),
  ];
  let missed = 0;
  const worker = async (): Promise<void> => {
    for (const { name } of left) {
      using child = startChild("--mutant", name);
      let found: Report["problems"][number] | undefined;
      for (const job of jobs) if (!found) [found] = (await child.ask(job)).problems;
      if (!found) missed += 1;
      console.log(found ? `found: ${name}: seed ${found.seed}, ${found.problem.slice(0, 120)}` : `MISSED: ${name}`);
    }
  };
  await Promise.all(Array.from({ length: Number(values.processes) }, worker));
  console.log(`${mutants.length - missed} of ${mutants.length} mutants found`);
  process.exitCode = missed === 0 ? 0 : 1;
}

interface Child extends Disposable {
  ask(job: Job): Promise<Report>;
}

function startChild(...args: string[]): Child {
  const only = values.only === undefined ? [] : ["--only", values.only];
  const child = fork(import.meta.filename, [...only, ...args], { stdio: "inherit", execArgv: ["--no-warnings"] });
  const { promise: ended, reject } = Promise.withResolvers<never>();
  child.once("exit", (code) => reject(new Error(`a process of the simulation ended with ${code}`)));
  ended.catch(() => undefined);
  return {
    async ask(job) {
      const { promise, resolve } = Promise.withResolvers<Report>();
      child.once("message", (report) => resolve(report as Report));
      child.send(job);
      return await Promise.race([promise, ended]);
    },
    [Symbol.dispose]: () => child.disconnect(),
  };
}
