// Builds the console, backend/console, into backend/http/console: the page, with the first script and the styles inside, files with hashed
// names, each also compressed, and files.json that lists them. Invariants: no file contains what is inside the page; it is built only if its
// sources, its packages or this file have changed; a half-written folder never replaces a complete one; concurrent builds run one after the
// other; no test file is included. It is plain JavaScript for any Node >= 20, because hack/bootstrap.mjs calls it before anything runs;
// vitest.config.ts and hack/bundle-backend.ts call it too.
//
//   node hack/console.mjs [--sizes]    --sizes: prints the size of each file, also compressed
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { readLicences } from "./licences.mjs";
import { acquireLock } from "./lock.mjs";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SOURCES = join(ROOT, "backend", "console");
/** Shared by the console and the CLI. */
const CLIENT = join(ROOT, "backend", "client");
/** Dashboards that the console shows. */
const DASHBOARDS = join(ROOT, "docs", "dashboards");
const TARGET = join(ROOT, "backend", "http", "console");
/** In the same parent folder, so that it can be renamed to the target. */
const DRAFT = `${TARGET}.draft`;
const BEFORE = `${TARGET}.before`;
const MANIFEST = "files.json";
/** On `globalThis`: file name → exports of the script that is inlined in the page instead of served as this file. */
const INLINED = "atheropsInlined";
const TYPES = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Resolves to whether it built the console. Rejects with the bundler's message. */
export async function buildConsole() {
  if (!existsSync(SOURCES) || isBuilt(hashSources())) return false;
  const release = await acquireLock(`${TARGET}.lock`);
  try {
    const origin = hashSources();
    // Another process may have built it while this one waited.
    if (isBuilt(origin)) return false;
    const files = await bundle();
    // Remains of killed builds: this process holds the lock, so no build uses them.
    for (const folder of [DRAFT, BEFORE]) rmSync(folder, { recursive: true, force: true });
    mkdirSync(DRAFT, { recursive: true });
    const named = Object.entries(files).map(([name, contents]) => write(DRAFT, name, contents));
    writeFileSync(join(DRAFT, MANIFEST), JSON.stringify({ origin, files: named }, undefined, 1));
    if (existsSync(TARGET)) renameSync(TARGET, BEFORE);
    renameSync(DRAFT, TARGET);
    rmSync(BEFORE, { recursive: true, force: true });
    return true;
  } finally {
    release();
  }
}

function isBuilt(origin) {
  const manifest = join(TARGET, MANIFEST);
  return existsSync(manifest) && JSON.parse(readFileSync(manifest, "utf8")).origin === origin;
}

function hashSources() {
  const hash = createHash("sha256");
  for (const name of ["console.mjs", "licences.mjs"]) hash.update(readFileSync(new URL(name, import.meta.url)));
  const dashboards = sourcesIn(DASHBOARDS).filter((path) => path.endsWith(".json"));
  for (const [folder, paths] of [
    [SOURCES, sourcesIn(SOURCES)],
    [CLIENT, sourcesIn(CLIENT)],
    [DASHBOARDS, dashboards],
  ])
    for (const path of paths) hash.update(path.slice(folder.length)).update(readFileSync(path));
  return hash.digest("hex");
}

/** Includes package.json, in which the packages are pinned. */
function sourcesIn(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      if (entry.name === "node_modules" || entry.name.endsWith(".test.ts")) return [];
      const path = join(folder, entry.name);
      return entry.isDirectory() ? sourcesIn(path) : [path];
    });
}

/** File name → contents. */
async function bundle() {
  const { build } = await import("esbuild");
  const { outputFiles, metafile } = await build({
    absWorkingDir: SOURCES,
    entryPoints: { console: "main.tsx" },
    outdir: TARGET,
    // Scripts inside the page are not in the folder of the files that they import.
    publicPath: "/console",
    // Part of the hashed names: files are cached without expiry, and another version of this file can write others from the same sources.
    banner: { js: `/*${hashOwnSource()}*/` },
    write: false,
    bundle: true,
    splitting: true,
    format: "esm",
    target: ["es2023"],
    minify: true,
    metafile: true,
    jsx: "automatic",
    jsxImportSource: "preact",
    tsconfigRaw: {},
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    assetNames: "[name]-[hash]",
    legalComments: "none",
    logLevel: "silent",
  });
  const files = Object.fromEntries(outputFiles.map(({ path, contents }) => [basename(path), Buffer.from(contents)]));
  const icon = readFileSync(join(SOURCES, "icon.svg"));
  return {
    ...inlineFirst(files, metafile.outputs),
    "icon.svg": icon,
    "LICENSES.txt": Buffer.from(
      [...readLicences(SOURCES, Object.keys(metafile.inputs)).map(({ section }) => section), iconsLicence()].join("\n"),
    ),
  };
}

function hashOwnSource() {
  return createHash("sha256")
    .update(readFileSync(fileURLToPath(import.meta.url)))
    .digest("hex")
    .slice(0, 8);
}

/**
 * Moves the style sheet, the first script and what it imports into the page: on a slow line, the first paint and the first requests for data
 * do not wait for another round trip. The other files get what they share with the first script from `INLINED`.
 */
function inlineFirst(files, outputs) {
  const [path, { cssBundle } = {}] = Object.entries(outputs).find(([, { entryPoint }]) => entryPoint === "main.tsx") ?? [];
  if (!cssBundle) throw new Error("the console's bundle has no style sheet");
  const inlined = [...staticImports(outputs, path), basename(path)];
  const scripts = inlined.map(
    (name) => `<script type="module">${shareExports(name, importInlined(files[name].toString(), inlined))}</script>`,
  );
  const fill = { style: `<style>${files[basename(cssBundle)]}</style>`, scripts: scripts.join("\n    ") };
  const page = readFileSync(join(SOURCES, "index.html"), "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => fill[name]);
  if (page.includes("<!--") || page.split(/<\/(?:script|style)/i).length !== scripts.length + 2)
    throw new Error("the console's script or style sheet contains an end tag or a comment of HTML");
  const isServed = (name) => !inlined.includes(name) && name !== basename(cssBundle);
  const served = Object.entries(files).filter(([name]) => isServed(name));
  const rewritten = served.map(([name, text]) => [
    name,
    name.endsWith(".js") ? Buffer.from(importInlined(text.toString(), inlined)) : text,
  ]);
  return { ...Object.fromEntries(rewritten), "index.html": Buffer.from(page) };
}

/** Replaces static imports of inlined scripts. */
function importInlined(script, inlined) {
  return script.replace(/import\{([^}]*)\}from"\/console\/([^"]+)"/g, (statement, names, file) =>
    inlined.includes(file) ? `const{${names.replaceAll(" as ", ":")}}=${INLINED}["${file}"]` : statement,
  );
}

/** Replaces the exports of an inlined script. Their values never change after it has run, which the linter checks. */
function shareExports(file, script) {
  return script.replace(/export\{([^}]*)\};\s*$/, (_, names) => {
    const fields = names.split(",").map((name) => name.split(" as ").toReversed().join(":"));
    return `(globalThis.${INLINED}??={})["${file}"]={${fields}};`;
  });
}

/** The icons in parts/icons.tsx are copies. */
function iconsLicence() {
  return `${"=".repeat(80)}\nlucide 1.62.0, icons (ISC)\n\n${readFileSync(join(SOURCES, "parts", "lucide-license.txt"), "utf8")}`;
}

/** Names of the files that `output` imports statically, each after those that it imports itself. */
function staticImports(outputs, output) {
  const imported = outputs[output].imports.filter(({ kind }) => kind === "import-statement");
  return [...new Set(imported.flatMap(({ path }) => [...staticImports(outputs, path), basename(path)]))];
}

function write(folder, name, contents) {
  writeFileSync(join(folder, name), contents);
  const type = TYPES[extname(name)] ?? "text/plain; charset=utf-8";
  const br = brotliCompressSync(contents, { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } });
  const gz = gzipSync(contents, { level: 9 });
  writeFileSync(join(folder, `${name}.br`), br);
  writeFileSync(join(folder, `${name}.gz`), gz);
  return { name, type, bytes: contents.length, br: br.length, gz: gz.length };
}

/** For vitest. */
export async function setup() {
  await buildConsole();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await buildConsole();
  if (process.argv[2] === "--sizes")
    for (const { name, bytes, br, gz } of JSON.parse(readFileSync(join(TARGET, MANIFEST), "utf8")).files)
      console.log(`${name.padEnd(40)} ${String(bytes).padStart(8)} B  br ${String(br).padStart(7)}  gz ${String(gz).padStart(7)}`);
}
