// Pushes a release that `hack/release` wrote to an OCI registry, with helm and crane, after comparing it with its checksums.
//
//   hack/publish registry.example.com/telemetry            charts to …/charts, images to …/<image name>
//   hack/publish localhost:5000/telemetry --dist FOLDER    publishes another folder than dist/; a local registry may use plain HTTP
//   hack/publish --help
//
// Log in first: `helm registry login`, `crane auth login`. Images are pushed if `sh dist/build-images.sh` built them. Everything else in
// dist/ is for the release page of your forge and your package repositories.
import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { execa } from "execa";
import { ROOT } from "./bundle.ts";
import { toolPath } from "./fetch-tools.ts";
import { sha256 } from "./releasing/provenance.ts";
import { readManual } from "./tools/progress.ts";

class PublishError extends Error {}

async function main(): Promise<void> {
  const options = { dist: { type: "string" }, help: { type: "boolean", short: "h" } } as const;
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  if (values.help) return console.log(readManual(import.meta.url));
  const [registry] = positionals;
  if (registry === undefined || positionals.length > 1)
    throw new PublishError("specify one registry, such as registry.example.com/telemetry");
  const dist = resolve(values.dist ?? join(ROOT, "dist"));
  compareChecksums(dist);
  const isLocal = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:|\/|$)/.test(registry);
  for (const chart of readdirSync(dist).filter(isChart)) {
    const args = ["push", join(dist, chart), `oci://${registry}/charts`, ...(isLocal ? ["--plain-http"] : [])];
    const { all } = await execa(await toolPath("helm"), args, { all: true });
    console.log(all);
  }
  for (const layout of list(join(dist, "images"))) {
    const image = `${registry}/${layout.replace("_", ":")}`;
    const args = ["push", join(dist, "images", layout), image, ...(isLocal ? ["--insecure"] : [])];
    console.log(`Pushed: ${(await execa(await toolPath("crane"), args)).stdout}`);
  }
}

/** npm packages are .tgz files, too. */
function isChart(file: string): boolean {
  const names = globSync("charts/*/Chart.yaml", { cwd: ROOT }).map(
    (chart) => /^name: (\S+)$/m.exec(readFileSync(join(ROOT, chart), "utf8"))?.[1],
  );
  return names.some((name) => file.startsWith(`${name}-`) && /^\d.*\.tgz$/.test(file.slice(`${name}-`.length)));
}

/** Throws unless every file of the release is unchanged. */
function compareChecksums(dist: string): void {
  const file = join(dist, "SHA256SUMS");
  if (!existsSync(file)) throw new PublishError(`${dist} has no SHA256SUMS: run hack/release first`);
  for (const line of readFileSync(file, "utf8").trimEnd().split("\n")) {
    const [expected, name = ""] = line.split(/ {2}/);
    const path = join(dist, name);
    if (!existsSync(path) || sha256(path) !== expected) throw new PublishError(`${path} is missing or changed: run hack/release again`);
  }
}

function list(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder).sort() : [];
}

try {
  await main();
} catch (error) {
  const { name, message, stack } = error as Error;
  const isExpected = error instanceof PublishError || name === "ToolError" || name === "ExecaError" || name === "TypeError";
  console.error(`hack/publish: ${isExpected ? message : stack}`);
  process.exitCode = 1;
}
