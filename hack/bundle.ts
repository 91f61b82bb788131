// Bundles a program into one JavaScript file for images and releases, with a source map and the licences of all bundled packages. Invariants:
// the same sources give the same bytes in any output folder; only node: modules are loaded at run time; no test file is bundled.
//
//   node hack/bundle.ts PROGRAM FOLDER    PROGRAM: k8s-agent | host-agent | atherops; writes FOLDER/<program>.js, .js.map, LICENSES.txt
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type BuildOptions, type BuildResult, type Plugin } from "esbuild";
import { packageOf } from "./imports.ts";
import { readLicences } from "./licences.mjs";

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** name → [entry, file name without extension]. */
export const PROGRAMS = {
  "k8s-agent": ["agent/bin/atherops-k8s-otel-agent.ts", "atherops-k8s-otel-agent"],
  "host-agent": ["agent/bin/atherops-otel-agent.ts", "atherops-otel-agent"],
  atherops: ["backend/cli/bin/atherops.ts", "atherops"],
} as const;

export type ProgramName = keyof typeof PROGRAMS;

/** Options of every bundle. */
export const COMMON = {
  absWorkingDir: ROOT,
  write: false,
  bundle: true,
  inject: ["hack/stack-traces.ts"],
  platform: "node",
  target: "node24",
  // An image has no tsconfig.json.
  tsconfigRaw: {},
  format: "esm",
  // CommonJS packages use `require`, which ES modules do not have.
  banner: { js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);' },
  sourcemap: "linked",
  // A source map names the sources; their text is in the repository at the release's tag.
  sourcesContent: false,
  metafile: true,
  legalComments: "none",
  // V8 keeps the text of running code in memory. Names and lines remain, for stack traces.
  minifyWhitespace: true,
  lineLimit: 200,
  logLevel: "warning",
} as const satisfies BuildOptions;

/** Writes the bundle into `folder`; returns the bundled packages, `name@version`, sorted. */
export async function bundle(program: ProgramName, folder: string): Promise<string[]> {
  const [entry, name] = PROGRAMS[program];
  return await bundleFile(entry, name, folder);
}

/** The same for any file of the repository: `entry` is relative to its root. */
export async function bundleFile(entry: string, name: string, folder: string): Promise<string[]> {
  // The source map names its sources relative to this path, so it does not depend on the output folder.
  const built = await build({
    ...COMMON,
    entryPoints: [entry],
    outfile: join(ROOT, `${name}.js`),
    plugins: [trimKubernetesClient(ROOT)],
  });
  const packages = writeBundle(built, [], folder);
  chmodSync(join(folder, `${name}.js`), 0o755);
  return packages;
}

/**
 * Writes the output and the licences. Throws if modules other than node: and `external` are loaded at run time. Returns the same as `bundle`.
 */
export function writeBundle({ metafile, outputFiles }: BuildResult<typeof COMMON>, external: readonly string[], folder: string): string[] {
  const inputs = Object.keys(metafile.inputs);
  const testFiles = inputs.filter((file) => /\.(test|fixture)\.ts$|(^|\/)test\//.test(file) && !file.includes("node_modules/"));
  if (testFiles.length > 0) throw new Error(`a program must not contain test files: ${testFiles.join(", ")}`);
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports.filter((entry) => entry.external));
  const missing = imports.map(({ path }) => path).filter((path) => !isBuiltin(path) && !external.includes(packageOf(path) ?? ""));
  if (missing.length > 0) throw new Error(`not in the bundle: ${missing.join(", ")}`);
  const packages = readLicences(ROOT, inputs);
  mkdirSync(folder, { recursive: true });
  for (const { path, contents } of outputFiles) writeFileSync(join(folder, basename(path)), contents);
  writeFileSync(join(folder, "LICENSES.txt"), packages.map(({ section }) => section).join("\n"));
  return packages.map(({ id }) => id);
}

// Removes the unused parts of the official Kubernetes client from the bundled agent, which would take 7 MB of memory on every node: its classes
// have a method for every call of the API, and its serialiser names every model, so no bundler can remove them. Invariant: the calls that
// agent/kubernetes/api.ts names stay, with all models that these calls and that file use. If the client's text is not as expected, the build
// fails.

const CALLS = "agent/kubernetes/api.ts";
const CLIENT = "@kubernetes/client-node/dist/gen";

/** A method of a generated class: its first line is indented by four, and so is its closing brace. */
const METHOD = /^ {4}async (\w+)\([^]*?^ {4}\}\n/gm;
const MODEL_IMPORT = /^import \{ \w+ +\} from '\.\.\/models\/(\w+)\.js';\n/gm;
const MODEL_EXPORT = /^export \* from '\.\.\/models\/\w+\.js';\n/gm;
const MODEL_ENTRY = /^ {4}"(\w+)": \w+,\n/gm;

function trimKubernetesClient(root: string): Plugin {
  const calls = readFileSync(join(root, CALLS), "utf8");
  const folder = join(root, "node_modules", CLIENT);
  const isCalled = (method: string): boolean => new RegExp(`\\.${method.replace(/WithHttpInfo$/, "")}(?:WithHttpInfo)?\\(`).test(calls);
  const trimApi = (path: string): string => {
    const text = readFileSync(path, "utf8");
    const trimmed = text.replace(METHOD, (method, name: string) => (isCalled(name) ? method : ""));
    // At least one method remains that builds a request, and one that reads its response.
    if ([...trimmed.matchAll(METHOD)].length < 2) throw new Error(`${path}: ${CALLS} calls none of its methods, or their form has changed`);
    return trimmed;
  };
  const apis = [...calls.matchAll(/client-node\/dist\/gen\/(apis\/\w+Api\.js)"/g)].map(([, file = ""]) => join(folder, file));
  return {
    name: "trim-kubernetes-client",
    setup(builder) {
      builder.onLoad({ filter: /client-node\/dist\/gen\/apis\/\w+Api\.js$/ }, ({ path }) => ({ contents: trimApi(path) }));
      builder.onLoad({ filter: /client-node\/dist\/gen\/models\/ObjectSerializer\.js$/ }, ({ path }) => {
        const models = findModels(dirname(path), [calls, ...apis.map(trimApi)]);
        const keepUsed = (line: string, model: string): string => (models.has(model) ? line : "");
        const contents = readFileSync(path, "utf8")
          .replace(MODEL_EXPORT, "")
          .replace(MODEL_IMPORT, keepUsed)
          .replace(MODEL_ENTRY, keepUsed);
        if (contents.split("from '../models/").length !== models.size + 1) throw new Error(`${path}: the form of its imports has changed`);
        return { contents };
      });
      // The client's own HTTP library, which the agent replaces, would load all of undici.
      builder.onResolve({ filter: /^undici$/ }, ({ importer }) =>
        importer.includes("client-node") ? { path: "undici", namespace: "unused" } : undefined,
      );
      builder.onLoad({ filter: /.*/, namespace: "unused" }, () => ({ contents: "export const fetch = undefined;" }));
    },
  };
}

/** Returns the models that these texts name as `"V1Secret"`, and those of their fields. */
function findModels(folder: string, texts: readonly string[]): Set<string> {
  const models = new Set<string>();
  const visit = (text: string, pattern: RegExp): void => {
    for (const [, type = ""] of text.matchAll(pattern)) {
      for (const [name] of type.matchAll(/\w+/g)) {
        const file = join(folder, `${name}.js`);
        if (models.has(name) || !existsSync(file)) continue;
        models.add(name);
        visit(readFileSync(file, "utf8"), /"type": "([^"]+)"/g);
      }
    }
  };
  for (const text of texts) visit(text, /, "([\w<>]+)", "/g);
  return models;
}

if (import.meta.main) {
  const [program, folder] = process.argv.slice(2);
  if (!program || !folder || !Object.hasOwn(PROGRAMS, program)) {
    console.error(`usage: node hack/bundle.ts ${Object.keys(PROGRAMS).join("|")} FOLDER`);
    process.exit(2);
  }
  const packages = await bundle(program as ProgramName, folder);
  console.error(`${relative(process.cwd(), folder)}: ${packages.length} packages inside`);
}
