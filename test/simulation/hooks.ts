// Replaces modules of the product in this thread: its file system and timers by those of the simulated machine, its engines by simulated
// ones, and, for a mutant, a text in one of its files. Import this file first; everything that is imported dynamically after it is
// replaced. Invariant: files of this folder get the real modules.
import { readFileSync } from "node:fs";
import { registerHooks, stripTypeScriptTypes } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export interface Mutant {
  readonly name: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

const FOLDER = import.meta.dirname;
const ROOT = dirname(dirname(FOLDER));
const here = (name: string): string => pathToFileURL(join(FOLDER, name)).href;

const BUILT_IN: Readonly<Record<string, string>> = {
  "node:fs": here("fs.ts"),
  "node:fs/promises": here("fs-promises.ts"),
  "node:timers/promises": here("timers-promises.ts"),
};
const MODULES: readonly (readonly [end: string, replacement: string])[] = [
  ["/backend/engines/clickhouse/embedded-clickhouse.ts", here("simulated-clickhouse.ts")],
  ["/backend/engines/clickhouse/remote.ts", here("simulated-clickhouse.ts")],
  ["/backend/storage/metrics/upstream.ts", here("simulated-upstream.ts")],
];

export function replaceModules(mutant?: Mutant): void {
  let isApplied = false;
  registerHooks({
    resolve(specifier, context, next) {
      const parent = context.parentURL ?? "";
      const isProduct = parent.startsWith("file:") && !parent.includes("/node_modules/") && !parent.startsWith(here(""));
      if (!isProduct) return next(specifier, context);
      const builtIn = BUILT_IN[specifier];
      if (builtIn !== undefined) return { url: builtIn, shortCircuit: true };
      const resolved = next(specifier, context);
      const replacement = MODULES.find(([end]) => resolved.url.endsWith(end))?.[1];
      return replacement === undefined ? resolved : { url: replacement, shortCircuit: true };
    },
    load(url, context, next) {
      if (!mutant || url !== pathToFileURL(join(ROOT, mutant.file)).href) return next(url, context);
      const text = readFileSync(fileURLToPath(url), "utf8");
      if (text.split(mutant.from).length !== 2) throw new Error(`${mutant.name}: its text must occur once in ${mutant.file}`);
      isApplied = true;
      const source = stripTypeScriptTypes(text.replace(mutant.from, () => mutant.to));
      return { format: "module", source, shortCircuit: true };
    },
  });
  process.on("exit", () => {
    if (mutant && !isApplied) process.exitCode = 3;
  });
}
