// `npm run bench -- logql [--pages FOLDER] [--only EXPRESSION] [--out FILE]`: sends each LogQL example of Loki's documentation to a real
// Loki and to the backend's Loki API with the same records, and counts how many results are equal, rejected by both, rejected by the
// backend with the name of an unsupported feature, or different. Exits with 1 if any is different. Loki is built from its Go module at the
// first run, and its pages (docs/sources/query) are those of the module. `--only`: examples that match; `--out`: every example with its
// outcome. It measures no times, so other load of the machine does not matter.
import { execFileSync } from "node:child_process";
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { moduleFolder } from "../../hack/tools/go-module.ts";
import { markdown } from "../fixtures/measure.ts";
import { ROOT, temporaryFolder } from "../fixtures/processes.ts";
import { compare, type Compared, OUTCOMES } from "./logql/compare.ts";
import { readPage } from "./logql/pages.ts";
import { recordsFor } from "./logql/records.ts";
import { Sides } from "./logql/sides.ts";

const { values } = parseArgs({ options: { pages: { type: "string" }, only: { type: "string", default: "" }, out: { type: "string" } } });
const pages = values.pages ?? join(await moduleFolder("loki", "github.com/grafana/loki/v3"), "docs/sources/query");
const MINUTE_MS = 60_000;
const RANGE_MINUTES = 30;

using folder = temporaryFolder();
await using sides = await Sides.start(join(folder.path, "loki"));

const examples = new Map<string, string>();
const lines = new Set<string>();
for (const name of globSync("**/*.md", { cwd: pages }).sort()) {
  const page = await readPage(readFileSync(join(pages, name), "utf8"), (query) => sides.isLogql(query));
  for (const line of page.lines) lines.add(line);
  for (const query of page.examples) {
    const key = query.replaceAll(/\s+/g, " ").trim();
    if (![...examples.keys()].some((other) => other.replaceAll(/\s+/g, " ").trim() === key)) examples.set(query, name);
  }
}
const endMs = (Math.floor(Date.now() / MINUTE_MS) - 2) * MINUTE_MS;
const records = recordsFor([...examples.keys()], [...lines], BigInt(endMs) * 1_000_000n - 1n);
await sides.load(records);

const compared: Compared[] = [];
const range = { start: String(endMs / 1000 - RANGE_MINUTES * 60), end: String(endMs / 1000) };
const asked = [...examples.keys()].filter((query) => new RegExp(values.only, "s").test(query));
for (const query of asked) compared.push(await compare(sides, query, range));

const commit = execFileSync("git", ["-C", ROOT, "rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
const count = (outcome: string): number => compared.filter((one) => one.outcome === outcome).length;
const shown = [
  `${commit}: ${compared.length} examples of ${pages.replace(/^.*\/(loki.*)/, "$1")}, ${records.length} records`,
  markdown(Object.fromEntries(OUTCOMES.map((outcome) => [outcome, { examples: String(count(outcome)) }]))),
  ...compared.flatMap(({ query, outcome, why }) =>
    ["different", "rejected by AtherOps"].includes(outcome) ? [`${outcome}: ${query}\n    ${why}`] : [],
  ),
];
console.log(shown.join("\n"));
if (values.out !== undefined) {
  const all = compared.map((one) => ({ ...one, page: examples.get(one.query) }));
  writeFileSync(values.out, all.map((one) => `${JSON.stringify(one)}\n`).join(""));
}
process.exitCode = count("different") > 0 ? 1 : 0;
