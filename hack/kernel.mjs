// Compiles the kernels (AssemblyScript): each folder becomes a .wasm file of its name next to it. Invariants: a kernel is compiled only
// if its sources, the compiler or the flags have changed, which takes seconds; a half-written file never replaces a complete one.
// It is plain JavaScript for any Node >= 20, because hack/bootstrap.mjs calls it before anything runs; vitest.config.ts calls it before the
// tests, and the bundle scripts before bundling.
//
//   node hack/kernel.mjs
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** The folders with sources. */
export const KERNELS = ["backend/ingest/otlp/kernel", "backend/ingest/exposition/kernel", "backend/ingest/remote-write/kernel"];
/** Sources that kernels share. */
const SHARED = "backend/ingest/kernel";
const COMPILER = join(ROOT, "node_modules", "assemblyscript", "package.json");
const FLAGS = ["-O3", "--runtime", "stub", "--enable", "simd", "--importMemory", "--initialMemory", "2"];

/** Resolves to whether it had to compile. Rejects with the compiler's message. */
export async function buildKernels() {
  let isMade = false;
  // One after the other, because compiling is CPU-bound.
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

/** A custom section at the end of the file that identifies its sources. */
function originSection(folder) {
  const hash = createHash("sha256")
    .update(JSON.parse(readFileSync(COMPILER, "utf8")).version)
    .update(FLAGS.join(" "))
    .update(readFileSync(fileURLToPath(import.meta.url)));
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
    readFile: (name, folder) => readFile(join(folder, name), "utf8").then(withTexts, () => null),
    writeFile: (_name, contents) => void (compiled = contents),
    stderr: { write: (text) => void (words += String(text)) },
  });
  if (error || !compiled) throw new Error(`${folder} does not compile:\n${words}`, { cause: error });
  return compiled;
}

/**
 * Replaces what AssemblyScript has no expression for. `isText("name", at, length)` compares memory with a text, eight bytes at a time; the
 * last word is shifted so that bytes after the text are ignored. `text("…")` is the address of a text; `words("…", …)` is the address of
 * texts that take sixteen bytes each, with the length in the last byte.
 */
function withTexts(source) {
  const compared = new Set();
  const replaced = source
    .replaceAll(/\bisText\("([^"]+)", /g, (_, text) => {
      compared.add(text);
      return `is_${hex(text)}(`;
    })
    .replaceAll(/\btext\((?:"([^"]*)"|'([^']*)')\)/g, (_, plain, quoted) => data(Buffer.from(plain ?? quoted)))
    .replaceAll(/\bwords\(([^)]*)\)/g, (_, list) => {
      const words = JSON.parse(`[${list}]`);
      return data(Buffer.concat(words.map((word) => Buffer.from(word.padEnd(15, "\0") + String.fromCharCode(word.length)))));
    });
  return [replaced, ...[...compared].map(comparison)].join("\n");
}

function comparison(text) {
  const words = text.match(/.{1,8}/g).map((part, index) => {
    const shift = 8 * (8 - part.length);
    const word = Buffer.from(part.padStart(8, "\0")).readBigUInt64LE();
    return ` && load<u64>(at, ${8 * index})${shift === 0 ? "" : ` << ${shift}`} == 0x${word.toString(16)}`;
  });
  return `function is_${hex(text)}(at: usize, length: u32): bool { return length == ${text.length}${words.join("")}; }`;
}

function hex(text) {
  return Buffer.from(text).toString("hex");
}

function data(bytes) {
  return `memory.data<u8>([${bytes.join()}])`;
}

/** For vitest. */
export async function setup() {
  await buildKernels();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildKernels();
