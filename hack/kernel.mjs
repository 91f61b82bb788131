// Compiles the decoders' kernel, backend/otlp/kernel (AssemblyScript), to kernel.wasm beside that folder. Invariants: it is compiled when
// its sources, its compiler or the flags are others than last time, and then within seconds; a half-written file never takes its place.
// Plain JavaScript, for any Node >= 20: hack/bootstrap.mjs calls it before anything runs, vitest.config.ts before the tests, and
// hack/bundle-backend.ts for the image.
//
//   node hack/kernel.mjs
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SOURCES = join(ROOT, "backend", "otlp", "kernel");
const TARGET = `${SOURCES}.wasm`;
const COMPILER = join(ROOT, "node_modules", "assemblyscript", "package.json");
const FLAGS = ["-O3", "--runtime", "stub", "--enable", "simd", "--importMemory", "--initialMemory", "2"];

/** Resolves to whether there was something to do. Rejects with the compiler's words. */
export async function buildKernel() {
  if (!existsSync(SOURCES)) return false;
  const origin = originSection();
  if (existsSync(TARGET) && readFileSync(TARGET).subarray(-origin.length).equals(origin)) return false;
  const compiled = await compile();
  const draft = `${TARGET}.${process.pid}`;
  writeFileSync(draft, Buffer.concat([compiled, origin]));
  renameSync(draft, TARGET);
  return true;
}

/** A custom section that ends the file: what it was made of. */
function originSection() {
  const hash = createHash("sha256")
    .update(JSON.parse(readFileSync(COMPILER, "utf8")).version)
    .update(FLAGS.join(" "));
  for (const name of readdirSync(SOURCES).sort()) if (name.endsWith(".ts")) hash.update(name).update(readFileSync(join(SOURCES, name)));
  const digest = hash.digest();
  const name = Buffer.from("origin");
  return Buffer.from([0, 1 + name.length + digest.length, name.length, ...name, ...digest]);
}

async function compile() {
  const { main } = await import("assemblyscript/asc");
  let compiled;
  let words = "";
  const { error } = await main(["index.ts", "--baseDir", SOURCES, "--outFile", "kernel.wasm", ...FLAGS], {
    writeFile: (_name, contents) => void (compiled = contents),
    stderr: { write: (text) => void (words += String(text)) },
  });
  if (error || !compiled) throw new Error(`the kernel does not compile:\n${words}`, { cause: error });
  return compiled;
}

/** For vitest. */
export async function setup() {
  await buildKernel();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildKernel();
