// `npm run bench -- NAME [ARGUMENTS]`: runs test/bench/NAME.ts with this Node; without a name, or with an unknown one, lists all
// benchmarks.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = join(dirname(dirname(fileURLToPath(import.meta.url))), "test", "bench");

const [name = "", ...args] = process.argv.slice(2);
const file = join(FOLDER, `${basename(name)}.ts`);
if (name !== "" && existsSync(file)) {
  const child = spawn(process.execPath, [file, ...args], { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
  const [code] = (await once(child, "exit")) as [number | null];
  process.exitCode = code ?? 1;
} else {
  const names = globSync("*.ts", { cwd: FOLDER }).map((path) => basename(path, ".ts"));
  console.error(`usage: npm run bench -- NAME [ARGUMENTS]\nbenchmarks: ${names.join(", ")}`);
  process.exitCode = 1;
}
