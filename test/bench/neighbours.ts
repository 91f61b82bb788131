// `npm run bench -- neighbours [--table | --seconds 600] [--attacks a,b,c | --calm | --each] [--checkout DIR] [--limit-mib 4096] [--out
// FILE] [--cpu-prof DIR]`: one tenant runs one attack of each kind at once, while another sends, queries, gets alerts, logs in and
// creates rules, all with one real backend with embedded engines in a pod's memory limit, which is restarted if it is killed. Prints the
// other tenant's results, late evaluations, memory, kills, probes, and the responses to each attack. `--table`: within four minutes, prints
// one line each without attacks, with one hostile query at a time, with all of them at once, and with one attack of each other kind at once.
// `--calm`: no attacks. `--each`: each attack alone, one after the other, with one line each. `--checkout`: the backend of another
// checkout, measured by this program. `--out`: the table also to FILE, everything to FILE.json. `--cpu-prof`: profiles of the backend's
// threads. The run time is limited, and each attack has its own limits.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { ROOT } from "../fixtures/processes.ts";
import { ATTACKS, FIRST_ATTACKS, PROGRAM_ATTACKS } from "../attacks/attack-table.ts";
import { run, type RunResult } from "../attacks/run-attacks.ts";
import { comparedRuns, shownRun, shownRuns } from "../attacks/show.ts";

const { values } = parseArgs({
  options: {
    table: { type: "boolean", default: false },
    seconds: { type: "string" },
    attacks: { type: "string", default: FIRST_ATTACKS.join(",") },
    calm: { type: "boolean", default: false },
    each: { type: "boolean", default: false },
    checkout: { type: "string", default: ROOT },
    "limit-mib": { type: "string", default: "4096" },
    out: { type: "string" },
    "cpu-prof": { type: "string" },
  },
});
const attacks = values.calm ? [] : values.attacks.split(",");
const unknown = attacks.filter((name) => !(name in ATTACKS));
if (unknown.length > 0) {
  console.error(`no such attack: ${unknown.join(", ")}\nthere are: ${Object.keys(ATTACKS).join(", ")}`);
  process.exit(1);
}
const checkout = resolve(values.checkout);
const commit = execFileSync("git", ["-C", checkout, "rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
const load = (): string => loadavg()[0]?.toFixed(1) ?? "?";
const loadBefore = load();
const seconds = Number(values.seconds ?? (values.table ? 35 : 600));
const runOf = async (names: readonly string[], oneAtATime = false): Promise<RunResult> => {
  const limitMib = Number(values["limit-mib"]);
  return await run({ checkout, attacks: names, oneAtATime, seconds, limitMib, cpuProfDir: values["cpu-prof"] });
};

async function runAll(): Promise<readonly [results: readonly RunResult[], shown: string]> {
  if (values.table) {
    const queries = PROGRAM_ATTACKS.filter((name) => ATTACKS[name]?.group === "logql");
    const named: [string, RunResult][] = [["no attack", await runOf([])]];
    named.push([`one of ${queries.length} hostile queries and tails at a time`, await runOf(queries, true)]);
    named.push([`${PROGRAM_ATTACKS.length} hostile programs at once`, await runOf(PROGRAM_ATTACKS)]);
    named.push([`${FIRST_ATTACKS.length} attacks of other kinds at once`, await runOf(FIRST_ATTACKS)]);
    return [named.map(([, result]) => result), `p50 / p99 / max in ms, of the slowest kind\n\n${comparedRuns(named)}`];
  }
  const results: RunResult[] = [];
  for (const together of values.each ? attacks.map((name) => [name]) : [attacks]) {
    results.push(await runOf(together));
    if (values.each) console.log(shownRuns(results.slice(-1)));
  }
  const [only] = results;
  return [results, values.each || !only ? shownRuns(results) : shownRun(only)];
}

const [results, table] = await runAll();
const head = `${commit}, ${seconds} s, limit ${values["limit-mib"]} MiB; load of the machine ${loadBefore} before, ${load()} after`;
const shown = `${head}\n\n${table}\n`;
console.log(shown);
if (values.out !== undefined) {
  writeFileSync(values.out, shown);
  writeFileSync(
    `${values.out}.json`,
    `${JSON.stringify({ bench: "neighbours", commit, node: process.version, options: values, results })}\n`,
  );
}
