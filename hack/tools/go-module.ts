// Builds a program from its Go module, pinned by go.mod and go.sum in hack/tools/<folder> (written by hack/tools/update.sh). Invariant:
// with -mod=readonly, a build uses exactly the pinned sources; without cgo, the program runs in any image.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { constants, setPriority } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse, stringify } from "yaml";
import { durationText, ToolError, type Progress } from "./progress.ts";

const MODULES = dirname(fileURLToPath(import.meta.url));
/** The path of Go's own installer, which is often missing on the PATH of services. */
const GO_INSTALLED = "/usr/local/go/bin/go";
const PROGRESS_EVERY_MS = 1000;
const NO_GO = "Go is not installed (https://go.dev/doc/install, 1.26.6 or newer)";

export interface GoModule {
  /** The folder in hack/tools with go.mod and go.sum. */
  folder: string;
  /** The program's import path; "." for a collector that the builder generates from `folder`/manifest.yaml. */
  package: string;
  /** Variables that the linker sets, so that the program reports its version; `import/path.name=value`. */
  variables?: string[];
  /** Build tags of Go. */
  tags?: string[];
  /** Rough time on two cores with cold caches, for the progress line. */
  takes: string;
}

/** Builds into `target`; `folder` is scratch space. Throws ToolError with the last output of the compiler. */
export async function buildModule(module: GoModule, folder: string, target: string, progress: Progress): Promise<void> {
  const go = findGo();
  if (go === undefined) throw new ToolError(NO_GO);
  progress(`building from its Go module (about ${module.takes} on two cores, once)`);
  const sources = module.package === "." ? await generateCollector(go, module.folder, folder) : join(MODULES, module.folder);
  const ldflags = ["-s", "-w", ...(module.variables ?? []).map((variable) => `-X ${variable}`)].join(" ");
  const options = ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-tags", (module.tags ?? []).join(",")];
  // A package that an earlier build left in Go's own cache is not stale.
  const list = await run(go, ["list", ...options, "-deps", "-f", "{{if .Stale}}1{{end}}", module.package], sources, () => {});
  const [total, started] = [list.split("\n").filter(Boolean).length, Date.now()];
  // With `-v`, Go prints the name of each package when it compiles it.
  await run(go, ["build", "-v", ...options, "-o", target, module.package], sources, (output) => {
    const done = Math.min(
      total,
      output.reduce((count, text) => count + text.split("\n").length - 1, 0),
    );
    progress(`building ${done} of ${total} packages, ${durationText(Date.now() - started)}`, "live");
  });
}

/**
 * Returns the folder with the sources of a module that `folder`'s go.mod pins, which are fetched if they are missing. Throws ToolError.
 */
export async function moduleFolder(folder: string, path: string): Promise<string> {
  const go = findGo();
  if (go === undefined) throw new ToolError(NO_GO);
  const answered = await run(go, ["mod", "download", "-json", path], join(MODULES, folder), () => {});
  // Progress messages may precede the JSON.
  return (JSON.parse(answered.slice(answered.indexOf("{"))) as { Dir: string }).Dir;
}

/** Generates the collector's main package with the official builder; our pinned go.mod and go.sum replace the generated ones. */
async function generateCollector(go: string, pins: string, folder: string): Promise<string> {
  const sources = join(folder, "sources");
  await mkdir(sources, { recursive: true });
  const manifest = parse(await readFile(join(MODULES, pins, "manifest.yaml"), "utf8")) as { dist: Record<string, string> };
  manifest.dist["output_path"] = sources;
  const withOutput = join(folder, "manifest.yaml");
  await writeFile(withOutput, stringify(manifest));
  const args = ["tool", "builder", "--config", withOutput, "--skip-compilation", "--skip-get-modules"];
  await run(go, args, join(MODULES, "otelcol-builder"), () => {});
  for (const pinned of ["go.mod", "go.sum"]) await copyFile(join(MODULES, pins, pinned), join(sources, pinned));
  return sources;
}

function findGo(): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(delimiter).filter(Boolean);
  return [...folders.map((folder) => join(folder, "go")), GO_INSTALLED].find((file) => existsSync(file));
}

/** Resolves with the output; passes what has been printed so far to `progress` every second. */
async function run(go: string, args: string[], cwd: string, progress: (output: readonly string[]) => void): Promise<string> {
  // The caller's GOFLAGS, workspace or target platform must not change the result.
  const { GOFLAGS: _flags, GOOS: _os, GOARCH: _arch, ...inherited } = process.env;
  const child = spawn(go, args, { cwd, env: { ...inherited, CGO_ENABLED: "0", GOWORK: "off" }, stdio: ["ignore", "pipe", "pipe"] });
  // Other programs have priority. If this process exits, the build is ended, because it would keep all cores busy for minutes.
  if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_BELOW_NORMAL);
  const end = (): void => void child.kill("SIGINT");
  process.once("exit", end);
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => output.push(text));
  const timer = setInterval(() => progress(output), PROGRESS_EVERY_MS);
  const [code] = (await once(child, "close").finally(() => {
    clearInterval(timer);
    process.off("exit", end);
  })) as [number | null];
  if (code !== 0) throw new ToolError(`go ${args[0]} ended with ${code}: ${lastLines(output.join(""))}`);
  return output.join("");
}

function lastLines(output: string): string {
  return output.trim().split("\n").slice(-5).join("\n    ");
}
