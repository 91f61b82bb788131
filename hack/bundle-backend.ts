// Bundles the backend for its image: the program, a file for each of its threads and their shared chunks, all with source maps; migrations,
// kernels, the console, and the licences of all bundled packages. A bundled start takes two thirds of the CPU time and 30 MB less memory
// (test/bench). Invariants: the same sources give the same bytes; only node: modules and EXTERNAL packages are loaded at run time; each file
// and folder that a source names by `new URL("./x", import.meta.url)` exists.
//
//   node hack/bundle-backend.ts FOLDER     writes FOLDER/atherops-backend.js and the other files
import { cpSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { build, type Plugin } from "esbuild";
import { COMMON, ROOT, writeBundle } from "./bundle.ts";
import { buildConsole } from "./console.mjs";
import { buildKernels } from "./kernel.mjs";

/** Packages that are not bundled: native libraries, and packages that only some installations have. */
export const EXTERNAL = ["@node-rs/argon2", "chdb"];
/** Optional dependencies of packages; none is installed here. */
const NOT_INSTALLED = ["bufferutil", "pg-native", "supports-color", "utf-8-validate"];

const NAMED = /new URL\("\.\/([\w.-]+)(\/?)", import\.meta\.url\)/g;
const SOURCES = "backend/**/*.ts";

/** Returns the bundled packages, `name@version`, sorted. */
export async function bundleBackend(folder: string): Promise<string[]> {
  await buildKernels();
  await buildConsole();
  const named = findNamedFiles();
  const threads = named.filter((path) => path.endsWith(".ts"));
  const built = await build({
    ...COMMON,
    entryPoints: Object.fromEntries([
      ["atherops-backend", "backend/main.ts"],
      ...threads.map((path) => [basename(nameInBundle(path), ".js"), path]),
    ]),
    // Source maps name their sources relative to this path, so it does not depend on the output folder.
    outdir: join(ROOT, "bundle"),
    // Code that only one command needs is loaded only by it, and code that threads share exists once.
    splitting: true,
    plugins: [renameFiles],
    external: [...EXTERNAL, ...NOT_INSTALLED],
  });
  const packages = writeBundle(built, [...EXTERNAL, ...NOT_INSTALLED], folder);
  for (const path of named) if (!threads.includes(path)) cpSync(join(ROOT, path), join(folder, nameInBundle(path)), { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }\n');
  return packages;
}

/** Returns the paths, relative to the root, of all files that sources name by `new URL`. */
function findNamedFiles(): string[] {
  const sources = globSync(SOURCES, { cwd: ROOT }).filter((file) => !/\.(?:test|fixture)\.ts$|^backend\/cli\//.test(file));
  const named = sources.flatMap((file) =>
    [...readFileSync(join(ROOT, file), "utf8").matchAll(NAMED)].map(([, name = ""]) => join(dirname(file), name)),
  );
  const names = named.map(nameInBundle);
  const duplicate = names.find((name, at) => names.indexOf(name) !== at);
  if (duplicate !== undefined) throw new Error(`two files or folders would be ${duplicate} in the bundle`);
  return named.sort();
}

/** The bundle is one folder: `backend/engines/sqlite/thread.ts` becomes `sqlite-thread.js` in it. */
function nameInBundle(path: string): string {
  return `${basename(dirname(path))}-${basename(path).replace(/\.ts$/, ".js")}`;
}

const renameFiles: Plugin = {
  name: "rename-files",
  setup(builder) {
    builder.onLoad({ filter: /\/backend\/.*\.ts$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      const renamed = text.replace(NAMED, (_, name: string, slash: string) => {
        return `new URL("./${nameInBundle(join(dirname(path), name))}${slash}", import.meta.url)`;
      });
      return { contents: renamed, loader: "ts" };
    });
  },
};

if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  if (!folder) {
    console.error("usage: node hack/bundle-backend.ts FOLDER");
    process.exit(2);
  }
  const packages = await bundleBackend(folder);
  console.error(`${relative(process.cwd(), folder)}: ${packages.length} packages inside`);
}
