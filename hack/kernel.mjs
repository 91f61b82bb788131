// Compiles the kernels (AssemblyScript), each folder to a .wasm of its name next to it. Invariants: one is compiled when its sources, its
// compiler or the flags are others than last time, and then within seconds; a half-written file never takes its place.
// Plain JavaScript, for any Node >= 20: hack/bootstrap.mjs calls it before anything runs, vitest.config.ts before the tests, and the
// bundles before they are made.
//
//   node hack/kernel.mjs
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** Folders of sources. */
export const KERNELS = [
  "backend/ingest/otlp/kernel",
  "backend/ingest/exposition/kernel",
  "backend/ingest/remote-write/kernel",
  "agent/proxy/kernel",
];
/** Sources that kernels share. */
const SHARED = "common/kernel";
const COMPILER = join(ROOT, "node_modules", "assemblyscript", "package.json");
const FLAGS = ["-O3", "--runtime", "stub", "--enable", "simd", "--importMemory", "--initialMemory", "2"];

/** Resolves to whether there was something to do. Rejects with the compiler's words. */
export async function buildKernels() {
  let isMade = false;
  // One after the other: the compiler is one and busy.
  for (const folder of KERNELS) isMade = (await buildKernel(folder)) || isMade;
  return isMade;
}

async function buildKernel(folder) {
  const target = join(ROOT, `${folder}.wasm`);
  if (!existsSync(join(ROOT, folder))) return false;
  const origin = originSection(folder);
  if (existsSync(target) && readFileSync(target).subarray(-origin.length).equals(origin)) return false;
  const compiled = await compile(folder);
  const draft = `${target}.${process.pid}`;
  writeFileSync(draft, Buffer.concat([compiled, origin]));
  renameSync(draft, target);
  return true;
}

/** A custom section that ends the file: what it was made of. */
function originSection(folder) {
  const hash = createHash("sha256")
    .update(JSON.parse(readFileSync(COMPILER, "utf8")).version)
    .update(FLAGS.join(" "));
  for (const from of [folder, SHARED]) {
    const sources = readdirSync(join(ROOT, from)).filter((name) => name.endsWith(".ts"));
    for (const name of sources.sort()) hash.update(name).update(readFileSync(join(ROOT, from, name)));
  }
  const digest = hash.digest();
  const name = Buffer.from("origin");
  return Buffer.from([0, 1 + name.length + digest.length, name.length, ...name, ...digest]);
}

async function compile(folder) {
  const { main } = await import("assemblyscript/asc");
  let compiled;
  let words = "";
  const { error } = await main([`${folder}/index.ts`, "--baseDir", ROOT, "--outFile", "kernel.wasm", ...FLAGS], {
    writeFile: (_name, contents) => void (compiled = contents),
    stderr: { write: (text) => void (words += String(text)) },
  });
  if (error || !compiled) throw new Error(`${folder} does not compile:\n${words}`, { cause: error });
  return compiled;
}

/** For vitest. */
export async function setup() {
  await buildKernels();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildKernels();
