// Bundles a program into one file of plain JavaScript for images and releases, with a source map that names its TypeScript files and with
// the licences of all bundled packages. Invariants: the same sources give the same bytes in any output folder; only node: modules are found
// at run time; no file of a test is bundled.
//
//   node hack/bundle.ts PROGRAM FOLDER    PROGRAM: k8s-agent | host-agent | atherops; writes FOLDER/<program>.js, .js.map, LICENSES.txt
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type BuildOptions, type BuildResult, type Plugin } from "esbuild";
import { packageOf } from "./imports.ts";
import { buildKernels } from "./kernel.mjs";

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
  // An image has no tsconfig.json, and the bundle needs none of it.
  tsconfigRaw: {},
  format: "esm",
  // CommonJS packages use `require`, which a module does not have.
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
  if (entry.startsWith("agent/")) await buildKernels();
  // Not the folder of the output, because the map names its sources relative to this path.
  const built = await build({
    ...COMMON,
    entryPoints: [entry],
    outfile: join(ROOT, `${name}.js`),
    plugins: [kernelInside, leanClient(ROOT)],
  });
  const packages = writeBundle(built, [], folder);
  chmodSync(join(folder, `${name}.js`), 0o755);
  return packages;
}

/** Embeds the kernel in a program that is a single file. */
const kernelInside: Plugin = {
  name: "kernel-inside",
  setup(builder) {
    builder.onLoad({ filter: /\/agent\/proxy\/fast-exposition\.ts$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      const kernel = readFileSync(join(dirname(path), "kernel.wasm"), "base64");
      const contents = text.replace('readFileSync(new URL("./kernel.wasm", import.meta.url))', `Buffer.from("${kernel}", "base64")`);
      if (contents === text) throw new Error(`${path} reads its kernel in other words`);
      return { contents, loader: "ts" };
    });
  },
};

/**
 * Writes the output and the licences. Throws if anything but node: and `outside` has to be found at run time. Returns the same as `bundle`.
 */
export function writeBundle({ metafile, outputFiles }: BuildResult<typeof COMMON>, outside: readonly string[], folder: string): string[] {
  const inputs = Object.keys(metafile.inputs);
  const strays = inputs.filter((file) => /\.(test|fixture)\.ts$|(^|\/)test\//.test(file) && !file.includes("node_modules/"));
  if (strays.length > 0) throw new Error(`tests are no part of a program: ${strays.join(", ")}`);
  const loadedLater = Object.values(metafile.outputs).flatMap(({ imports }) => imports.filter(({ external }) => external));
  const absent = loadedLater.map(({ path }) => path).filter((path) => !isBuiltin(path) && !outside.includes(packageOf(path) ?? ""));
  if (absent.length > 0) throw new Error(`not in the bundle: ${absent.join(", ")}`);
  const packages = packagesOf(inputs);
  mkdirSync(folder, { recursive: true });
  for (const { path, contents } of outputFiles) writeFileSync(join(folder, basename(path)), contents);
  writeFileSync(join(folder, "LICENSES.txt"), packages.map(licence).join("\n"));
  return packages.map(({ id }) => id);
}

interface Package {
  readonly id: string;
  readonly folder: string;
  readonly license: string;
}

function packagesOf(inputs: readonly string[]): Package[] {
  const folders = new Set(
    inputs.map((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0]).filter((folder) => folder !== undefined),
  );
  return [...folders]
    .map((folder) => {
      const manifest = JSON.parse(readFileSync(join(ROOT, folder, "package.json"), "utf8")) as Record<string, string>;
      return { id: `${manifest["name"]}@${manifest["version"]}`, folder, license: manifest["license"] ?? "see below" };
    })
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** One section of LICENSES.txt: the package, the name of its licence, and the licence's text as in the package. */
function licence({ id, folder, license }: Package): string {
  const names = readdirSync(join(ROOT, folder)).filter((name) => /^(licen[cs]e|copying|notice)/i.test(name));
  const texts = names.sort().map((name) => readFileSync(join(ROOT, folder, name), "utf8").trim());
  return `${"=".repeat(80)}\n${id} (${license})\n\n${texts.join("\n\n") || "The package carries no text of its licence."}\n`;
}

// Removes the unused parts of the official Kubernetes client from the bundled agent: its classes have methods for every call of the API
// and its serialiser names every model, which no bundler can know to be unused: 7 MB resident on every node. Invariant: only
// agent/kubernetes/api.ts decides what stays: the calls that it names, and every model that these calls, or it, read or write. If the
// client's text is not as expected, the build fails.

const CALLS = "agent/kubernetes/api.ts";
const CLIENT = "@kubernetes/client-node/dist/gen";

/** A method of a generated class: its first line is indented by four, and so is its closing brace. */
const METHOD = /^ {4}async (\w+)\([^]*?^ {4}\}\n/gm;
const MODEL_IMPORT = /^import \{ \w+ +\} from '\.\.\/models\/(\w+)\.js';\n/gm;
const MODEL_EXPORT = /^export \* from '\.\.\/models\/\w+\.js';\n/gm;
const MODEL_ENTRY = /^ {4}"(\w+)": \w+,\n/gm;

function leanClient(root: string): Plugin {
  const calls = readFileSync(join(root, CALLS), "utf8");
  const folder = join(root, "node_modules", CLIENT);
  const isCalled = (method: string): boolean => new RegExp(`\\.${method.replace(/WithHttpInfo$/, "")}(?:WithHttpInfo)?\\(`).test(calls);
  const leanApi = (path: string): string => {
    const text = readFileSync(path, "utf8");
    const lean = text.replace(METHOD, (method, name: string) => (isCalled(name) ? method : ""));
    // A request and an answer at least.
    if ([...lean.matchAll(METHOD)].length < 2)
      throw new Error(`${path}: none of its methods is called in ${CALLS}, or they look otherwise`);
    return lean;
  };
  const apis = [...calls.matchAll(/client-node\/dist\/gen\/(apis\/\w+Api\.js)"/g)].map(([, file = ""]) => join(folder, file));
  return {
    name: "lean-client",
    setup(builder) {
      builder.onLoad({ filter: /client-node\/dist\/gen\/apis\/\w+Api\.js$/ }, ({ path }) => ({ contents: leanApi(path) }));
      builder.onLoad({ filter: /client-node\/dist\/gen\/models\/ObjectSerializer\.js$/ }, ({ path }) => {
        const kept = modelsOf(dirname(path), [calls, ...apis.map(leanApi)]);
        const only = (line: string, model: string): string => (kept.has(model) ? line : "");
        const contents = readFileSync(path, "utf8").replace(MODEL_EXPORT, "").replace(MODEL_IMPORT, only).replace(MODEL_ENTRY, only);
        if (contents.split("from '../models/").length !== kept.size + 1) throw new Error(`${path}: its imports look otherwise`);
        return { contents };
      });
      // The client's own way of sending, which the agent's replaces, would bring all of undici along.
      builder.onResolve({ filter: /^undici$/ }, ({ importer }) =>
        importer.includes("client-node") ? { path: "undici", namespace: "unused" } : undefined,
      );
      builder.onLoad({ filter: /.*/, namespace: "unused" }, () => ({ contents: "export const fetch = undefined;" }));
    },
  };
}

/** The models that these texts name as `"V1Secret"`, and those of their fields. */
function modelsOf(folder: string, texts: readonly string[]): Set<string> {
  const found = new Set<string>();
  const visit = (text: string, pattern: RegExp): void => {
    for (const [, type = ""] of text.matchAll(pattern)) {
      for (const [name] of type.matchAll(/\w+/g)) {
        const model = found.has(name) ? undefined : readIfThere(join(folder, `${name}.js`));
        if (model === undefined) continue;
        found.add(name);
        visit(model, /"type": "([^"]+)"/g);
      }
    }
  };
  for (const text of texts) visit(text, /, "([\w<>]+)", "/g);
  return found;
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
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
