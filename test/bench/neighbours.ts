// `npm run bench -- neighbours [--seconds 600] [--attacks a,b,c | --calm | --each] [--checkout DIR] [--limit-mib 4096] [--out FILE]
// [--cpu-prof DIR]`: one tenant attacks in one way of each kind at once, another sends, queries, is alerted, logs in and creates
// rules, all to one real backend with embedded engines in a pod's limit of memory, which is started again when it is killed. Prints how the
// good tenant fares, late evaluations, memory, kills, probes, and how each attack was answered. `--calm`: nobody attacks. `--each`: each
// attack alone, one after the other, a line each. `--checkout`: the backend of another checkout, measured by this program. `--out`: the
// table also to FILE, everything to FILE.json. `--cpu-prof`: profiles of the backend's threads. Bounded: by seconds, and each attack by
// itself.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { ROOT } from "../fixtures/processes.ts";
import { ATTACKS, FIRST_ATTACKS } from "../attacks/table.ts";
import { run, type RunResult } from "../attacks/run.ts";
import { shownRun, shownRuns } from "../attacks/show.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "600" },
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
const results: RunResult[] = [];
for (const together of values.each ? attacks.map((name) => [name]) : [attacks]) {
  const options = { checkout, attacks: together, seconds: Number(values.seconds), limitMib: Number(values["limit-mib"]) };
  results.push(await run({ ...options, cpuProfDir: values["cpu-prof"] }));
  if (values.each) console.log(shownRuns(results.slice(-1)));
}
const head = `${commit}, ${values.seconds} s, limit ${values["limit-mib"]} MiB; load of the machine ${loadBefore} before, ${load()} after`;
const [only] = results;
const shown = `${head}\n\n${values.each || !only ? shownRuns(results) : shownRun(only)}\n`;
console.log(shown);
if (values.out !== undefined) {
  writeFileSync(values.out, shown);
  writeFileSync(
    `${values.out}.json`,
    `${JSON.stringify({ bench: "neighbours", commit, node: process.version, options: values, results })}\n`,
  );
}
