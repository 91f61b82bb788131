// Builds a release from a clean tag into dist/, and publishes nothing. Invariant: two runs from the same tag produce identical bytes: times in
// archives are those of the tagged commit, and lists are sorted.
//
//   hack/release              from a clean checkout whose HEAD has the tag v<version of package.json>
//   hack/release --untagged   builds the working tree; the version gets the commit's hash as build metadata
//   hack/release --set-version 0.2.0   writes the version everywhere, and dates the changelog
//   hack/release --help
//
// dist/
//   atherops-otel-agent_<version>_<arch>.deb, .rpm        the host agent: Node, collector, systemd unit
//   atherops-otel-agent-<version>-linux-<arch>.tar.gz     the same without a package manager
//   atherops-otel-agent-<version>.tgz                     the host agent for npm: needs Node 24, and a collector on PATH
//   atherops-<version>.tgz                                the admin client for npm: needs Node 24
//   atherops-backend-<chart version>.tgz, cluster-agent-<chart version>.tgz   the charts
//   build-images.sh                                       builds the images as OCI layouts for linux/amd64 and linux/arm64
//   sbom-agent.cdx.json, sbom-backend.cdx.json            npm packages, programs and their Go modules (CycloneDX)
//   provenance.intoto.jsonl                               commit and checksums (SLSA, not signed)
//   RELEASE_NOTES.md, SHA256SUMS
//
// `hack/publish REGISTRY` then pushes charts and images to a registry.
//
// Packages that contain programs are built for this machine's architecture; run it on each. nfpm builds deb and rpm (hack/packaging/nfpm.yaml).
import {
  appendFileSync,
  existsSync,
  globSync,
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { execa } from "execa";
import { bundle, ROOT } from "./bundle.ts";
import { currentValues } from "./chart-values.ts";
import { CATALOGUE, toolPath } from "./fetch-tools.ts";
import { provenance, sha256 } from "./releasing/provenance.ts";
import { nodeVersion, readSbom, WORKSPACES } from "./releasing/sbom.ts";
import { readManual } from "./tools/progress.ts";
import { setVersion, taggedRelease, untaggedRelease, type Release, VersionError } from "./version.ts";

const DIST = join(ROOT, "dist");
const WORK = join(DIST, ".work");
const PACKAGING = join(ROOT, "hack", "packaging");
/** The npm package of the Node version that runs everything. */
const NODE = join(ROOT, "node_modules", "node");
const ARCH = { x64: "amd64", arm64: "arm64" }[process.arch as string] ?? process.arch;

class ReleaseError extends Error {}

async function main(): Promise<void> {
  const options = { untagged: { type: "boolean" }, "set-version": { type: "string" }, help: { type: "boolean", short: "h" } } as const;
  const { values } = parseArgs({ options });
  if (values.help) return console.log(readManual(import.meta.url));
  if (values["set-version"] !== undefined) return printWritten(values["set-version"]);
  const release = await (values.untagged ? untaggedRelease(ROOT) : taggedRelease(ROOT));
  process.env["SOURCE_DATE_EPOCH"] = release.epoch;
  rmSync(DIST, { recursive: true, force: true });
  mkdirSync(WORK, { recursive: true });
  const steps: [string, (release: Release) => Promise<void>][] = [
    ["npm tarballs", npmTarballs],
    ["the host agent, self-contained", hostAgent],
    ["charts", charts],
    ["images", imageCommands],
    ["SBOM", sboms],
    ["notes", notes],
  ];
  for (const [step, make] of steps) {
    const startedAt = Date.now();
    await make(release);
    console.error(`${step}: ${((Date.now() - startedAt) / 1000).toFixed(1)} s`);
  }
  rmSync(WORK, { recursive: true });
  await listFiles(release);
  console.error(`\natherops ${release.version} in ${DIST}; nothing was published. Check it: cd dist && sha256sum -c SHA256SUMS`);
}

function printWritten(version: string): void {
  const written = setVersion(ROOT, version, new Date().toISOString().slice(0, 10));
  console.error(`version ${version}, written to:\n  ${written.join("\n  ")}\nThen: git commit -a && git tag v${version} && hack/release`);
}

/** The bundles as npm packages, for `npm install -g FILE`. */
async function npmTarballs({ version }: Release): Promise<void> {
  for (const [program, name, systems, description] of [
    ["atherops", "atherops", ["linux", "darwin"], "Administers an AtherOps backend over its HTTP API, and reads telemetry"],
    ["host-agent", "atherops-otel-agent", ["linux"], "Sends the telemetry of this Linux host to an AtherOps backend"],
  ] as const) {
    const folder = join(WORK, "npm", name);
    mkdirSync(folder, { recursive: true });
    await bundle(program, folder);
    const file = `${name}.js`;
    chmodSync(join(folder, file), 0o755);
    const manifest = { name, version, description, type: "module", bin: { [name]: file }, engines: { node: ">=24" }, os: systems };
    writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, undefined, 2)}\n`);
    await execa("npm", ["pack", "--silent", "--pack-destination", DIST], { cwd: folder });
  }
}

/** Builds the installed file tree, then an archive and two packages of it. */
async function hostAgent(release: Release): Promise<void> {
  const tree = join(WORK, "host", "tree");
  const lib = join(tree, "usr/lib/atherops-otel-agent");
  const doc = join(tree, "usr/share/doc/atherops-otel-agent");
  for (const folder of [lib, doc, join(tree, "usr/bin"), join(tree, "usr/lib/systemd/system")]) mkdirSync(folder, { recursive: true });
  await bundle("host-agent", lib);
  renameSync(join(lib, "LICENSES.txt"), join(doc, "copyright"));
  appendFileSync(join(doc, "copyright"), programLicences());
  copyFileSync(join(ROOT, "docs/reference/agent-settings.md"), join(doc, "settings.md"));
  copyFileSync(await pinnedNode(), join(lib, "node"));
  copyFileSync(await toolPath("otelcol-host"), join(lib, "otelcol-contrib"));
  copyFileSync(join(PACKAGING, "atherops-otel-agent.sh"), join(tree, "usr/bin/atherops-otel-agent"));
  copyFileSync(join(ROOT, "agent/systemd/atherops-otel-agent.service"), join(tree, "usr/lib/systemd/system/atherops-otel-agent.service"));
  copyFileSync(join(PACKAGING, "agent.env"), join(WORK, "host", "agent.env"));
  for (const program of [join(lib, "node"), join(lib, "otelcol-contrib"), join(tree, "usr/bin/atherops-otel-agent")]) {
    chmodSync(program, 0o755);
  }
  await archive(release, tree);
  const nfpm = await toolPath("nfpm");
  const env = { VERSION: release.version, ARCH, SOURCE: join(WORK, "host"), PACKAGING, SOURCE_DATE_EPOCH: release.epoch };
  const config = join(PACKAGING, "nfpm.yaml");
  for (const kind of ["deb", "rpm"]) {
    const target = join(DIST, `atherops-otel-agent_${release.version}_${ARCH}.${kind}`);
    await execa(nfpm, ["package", "--config", config, "--packager", kind, "--target", target], { cwd: PACKAGING, env });
  }
}

/**
 * Licences of Node.js and the collector, which are packaged next to the bundle. The collector is distributed without its licence, so this
 * contains its URL.
 */
function programLicences(): string {
  const [nodeLicence = ""] = globSync("node_modules/node-*/LICENSE", { cwd: NODE });
  const collector = CATALOGUE.find(({ name }) => name === "otelcol-contrib")?.version;
  const collectorLicence = `https://github.com/open-telemetry/opentelemetry-collector-contrib/blob/v${collector}/LICENSE`;
  return [
    [`node@${nodeVersion(ROOT)} (MIT, and those below)`, readFileSync(join(NODE, nodeLicence), "utf8")],
    [`otelcol-contrib@${collector} (Apache-2.0)`, collectorLicence],
  ]
    .map((section) => `\n${"=".repeat(80)}\n${section.join("\n\n")}\n`)
    .join("");
}

/** Returns the path of the pinned Node.js, which is downloaded if npm did not run its install script. */
async function pinnedNode(): Promise<string> {
  const program = join(NODE, "bin/node");
  if (!existsSync(program)) await execa(process.execPath, ["installArchSpecificPackage"], { cwd: NODE });
  return program;
}

async function archive({ version, epoch }: Release, tree: string): Promise<void> {
  const name = `atherops-otel-agent-${version}-linux-${ARCH}`;
  const folder = join(WORK, "archive", name);
  cpSync(tree, folder, { recursive: true });
  copyFileSync(join(PACKAGING, "agent.env"), join(folder, "agent.env"));
  copyFileSync(join(PACKAGING, "install.sh"), join(folder, "install.sh"));
  chmodSync(join(folder, "install.sh"), 0o755);
  await packTar(epoch, join(DIST, `${name}.tar.gz`), join(WORK, "archive"));
}

/** Packs the content of a folder, with identical bytes for identical content. */
async function packTar(epoch: string, target: string, folder: string, ...args: string[]): Promise<void> {
  const reproducible = ["--sort=name", `--mtime=@${epoch}`, "--owner=0", "--group=0", "--numeric-owner", ...args];
  await execa("tar", [...reproducible, "-C", folder, "-I", "gzip -n", "-cf", target, ...readdirSync(folder)]);
}

/**
 * A chart has its own version, which increases with its values (hack/chart-values.ts); an untagged chart gets the commit's hash as build
 * metadata. Helm writes the current time into the archive, so it is packed again with the commit's time.
 */
async function charts({ version, epoch }: Release): Promise<void> {
  const build = version.includes("+") ? version.slice(version.indexOf("+")) : "";
  const helm = await toolPath("helm");
  const folder = join(WORK, "charts");
  for (const chart of ["backend", "cluster-agent"]) {
    const versions = ["--version", `${currentValues(chart).version}${build}`, "--app-version", version];
    await execa(helm, ["package", join(ROOT, "charts", chart), ...versions, "--destination", folder]);
  }
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".tgz"))) {
    const unpacked = join(folder, `${file}.d`);
    mkdirSync(unpacked);
    await execa("tar", ["-xzf", join(folder, file), "-C", unpacked]);
    await packTar(epoch, join(DIST, file), unpacked, "--mode=u=rwX,go=rX");
  }
}

async function imageCommands({ version, epoch }: Release): Promise<void> {
  const tag = version.replace("+", "-");
  const script = readFileSync(join(ROOT, "hack/releasing/build-images.sh"), "utf8");
  writeFileSync(join(DIST, "build-images.sh"), script.replaceAll("@TAG@", tag).replaceAll("@EPOCH@", epoch), { mode: 0o755 });
}

async function sboms({ epoch }: Release): Promise<void> {
  for (const workspace of WORKSPACES) {
    const sbom = await readSbom(ROOT, workspace, epoch);
    writeFileSync(join(DIST, `sbom-${workspace}.cdx.json`), `${JSON.stringify(sbom, undefined, 2)}\n`);
  }
}

/** The section of CHANGELOG.md for this version; for an untagged release, the unreleased changes. */
async function notes({ version }: Release): Promise<void> {
  const sections = readFileSync(join(ROOT, "CHANGELOG.md"), "utf8").split(/^## /m).slice(1);
  const section = sections.find((text) => text.startsWith(`[${version}]`)) ?? (version.includes("+") ? sections[0] : undefined);
  if (section === undefined) throw new ReleaseError(`CHANGELOG.md has no section "## [${version}]": write it, commit, and tag that commit`);
  writeFileSync(join(DIST, "RELEASE_NOTES.md"), `# ${section.trim()}\n`);
}

/** Written last, because both files list all others. */
async function listFiles({ version }: Release): Promise<void> {
  const { stdout: commit } = await execa("git", ["rev-parse", "HEAD"], { cwd: ROOT });
  const statement = provenance({ version, commit, folder: DIST, files: readdirSync(DIST).sort(), root: ROOT });
  writeFileSync(join(DIST, "provenance.intoto.jsonl"), `${JSON.stringify(statement)}\n`);
  const lines = readdirSync(DIST)
    .sort()
    .map((file) => `${sha256(join(DIST, file))}  ${file}\n`);
  writeFileSync(join(DIST, "SHA256SUMS"), lines.join(""));
}

try {
  await main();
} catch (error) {
  const { name, message, stack } = error as Error;
  console.error(
    `hack/release: ${error instanceof ReleaseError || error instanceof VersionError || name === "ToolError" || name === "ExecaError" ? message : stack}`,
  );
  process.exitCode = 1;
}
