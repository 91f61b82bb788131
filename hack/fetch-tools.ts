// Fetches third-party programs of pinned versions: from PATH, the cache or their projects' releases, or by building their Go modules. To
// change a version, edit this file and hack/tools/update.sh.
//
//   node hack/fetch-tools.ts                  fetches all programs for `npm start` and `npm test`
//   node hack/fetch-tools.ts helm kind …      fetches these programs, and prints their paths, one per line
//   node hack/fetch-tools.ts --help
//
// The cache is ${XDG_CACHE_HOME:-~/.cache}/atherops/tools/<name>/<version>/<name> (<version>-<components> for the collector); removing it is
// safe. No SHA-256 is pinned yet, because no release host could be reached to verify one. Archives are checked against the checksum file of
// their own release, which detects damage, but not a compromised release.
import { createHash } from "node:crypto";
import { homedir } from "node:os";
import { join } from "node:path";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import type { Release } from "./tools/release.ts";
import { find, obtain, type Tool } from "./tools/obtain.ts";
import { type Progress, progressOn, readManual, ToolError } from "./tools/progress.ts";

const VICTORIA_METRICS = "1.150.0";
const KUBERNETES = "1.34.4";
const COLLECTOR = "0.149.0";

/** Tools for `npm start`. */
export const RUN_TOOLS = ["victoria-metrics", "vmalert", "otelcol-host"] as const;
/** Tools for `npm test`. */
export const TEST_TOOLS = [...RUN_TOOLS, "otelcol-contrib", "helm", "etcd", "kube-apiserver"] as const;

export const CATALOGUE: readonly Tool[] = [
  {
    name: "victoria-metrics",
    version: VICTORIA_METRICS,
    alsoNamed: ["victoria-metrics-prod"],
    versionArgs: ["-version"],
    release: victoriaMetricsRelease("victoria-metrics", "victoria-metrics-prod"),
    module: victoriaMetricsModule("victoria-metrics"),
  },
  {
    name: "vmalert",
    version: VICTORIA_METRICS,
    alsoNamed: ["vmalert-prod"],
    versionArgs: ["-version"],
    release: victoriaMetricsRelease("vmutils", "vmalert-prod"),
    module: victoriaMetricsModule("vmalert"),
  },
  collector("otelcol-host", { takes: "3 minutes" }),
  // Without these tags, Prometheus' service discovery links the SDKs of all clouds; the agent uses only Kubernetes' discovery.
  collector("otelcol-contrib", { takes: "6 minutes", tags: ["remove_all_sd", "enable_kubernetes_sd"] }),
  {
    name: "helm",
    version: "4.3.1",
    versionArgs: ["version"],
    release: forLinux((arch) => withSuffix(`https://get.helm.sh/helm-v4.3.1-linux-${arch}.tar.gz`, ".sha256sum", `linux-${arch}/helm`)),
    module: {
      folder: "helm",
      package: "helm.sh/helm/v4/cmd/helm",
      variables: ["helm.sh/helm/v4/internal/version.version=v4.3.1"],
      takes: "2 minutes",
    },
  },
  {
    name: "etcd",
    version: "3.6.6",
    versionArgs: ["--version"],
    release: forLinux((arch) => ({
      url: github("etcd-io/etcd", "v3.6.6", `etcd-v3.6.6-linux-${arch}.tar.gz`),
      checksums: github("etcd-io/etcd", "v3.6.6", "SHA256SUMS"),
      member: `etcd-v3.6.6-linux-${arch}/etcd`,
    })),
    module: { folder: "etcd", package: "go.etcd.io/etcd/server/v3", takes: "1 minute" },
  },
  kubernetes("kube-apiserver", ["--version"], "4 minutes"),
  kubernetes("kubectl", ["version", "--client"], "2 minutes"),
  {
    name: "kind",
    version: "0.33.0",
    versionArgs: ["--version"],
    release: forLinux((arch) => withSuffix(github("kubernetes-sigs/kind", "v0.33.0", `kind-linux-${arch}`), ".sha256sum")),
    module: { folder: "kind", package: "sigs.k8s.io/kind", takes: "half a minute" },
  },
  {
    // The newest version whose modules are all available.
    name: "nfpm",
    version: "2.45.1",
    versionArgs: ["--version"],
    release: forLinux((arch) => ({
      url: github("goreleaser/nfpm", "v2.45.1", `nfpm_2.45.1_Linux_${arch === "amd64" ? "x86_64" : arch}.tar.gz`),
      checksums: github("goreleaser/nfpm", "v2.45.1", "checksums.txt"),
      member: "nfpm",
    })),
    module: {
      folder: "nfpm",
      package: "github.com/goreleaser/nfpm/v2/cmd/nfpm",
      variables: ["main.version=2.45.1"],
      takes: "1 minute",
    },
  },
  {
    // Only for `hack/publish`.
    name: "crane",
    version: "0.22.1",
    versionArgs: ["version"],
    release: forLinux((arch) => ({
      url: github("google/go-containerregistry", "v0.22.1", `go-containerregistry_Linux_${arch === "amd64" ? "x86_64" : arch}.tar.gz`),
      checksums: github("google/go-containerregistry", "v0.22.1", "checksums.txt"),
      member: "crane",
    })),
    module: {
      folder: "crane",
      package: "github.com/google/go-containerregistry/cmd/crane",
      variables: ["github.com/google/go-containerregistry/cmd/crane/cmd.Version=0.22.1"],
      takes: "half a minute",
    },
  },
  {
    // Only for `npm run bench -- peers` and `-- logql`. Its releases are .zip files, which release.ts does not read.
    name: "loki",
    version: "3.7.8",
    versionArgs: ["-version"],
    release: undefined,
    module: {
      folder: "loki",
      package: "github.com/grafana/loki/v3/cmd/loki",
      variables: ["github.com/grafana/loki/v3/pkg/util/build.Version=3.7.8"],
      takes: "5 minutes",
    },
  },
  {
    // Only for `npm run compliance -- --only alertmanager`: the newest version whose module contains its compiled user interface.
    name: "alertmanager",
    version: "0.31.1",
    versionArgs: ["--version"],
    release: undefined,
    module: {
      folder: "alertmanager",
      package: "github.com/prometheus/alertmanager/cmd/alertmanager",
      variables: ["github.com/prometheus/common/version.Version=0.31.1"],
      takes: "3 minutes",
    },
  },
  {
    // Only for `npm run bench -- questions`: the main branch of 2026-06-24, as modules.
    name: "victoria-logs",
    version: "1.51.1",
    versionArgs: ["-version"],
    release: undefined,
    module: {
      folder: "victoria-logs",
      package: "github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs",
      variables: ["github.com/VictoriaMetrics/VictoriaMetrics/lib/buildinfo.Version=victoria-logs-1.51.1"],
      takes: "2 minutes",
    },
  },
];

/** A collector with the components of hack/tools/<name>/manifest.yaml; the official archive has them all. */
function collector(name: string, build: { takes: string; tags?: string[] }): Tool {
  const repository = "open-telemetry/opentelemetry-collector-releases";
  return {
    name,
    version: COLLECTOR,
    edition: componentsOf(name),
    versionArgs: ["--version"],
    release: forLinux((arch) => ({
      url: github(repository, `v${COLLECTOR}`, `otelcol-contrib_${COLLECTOR}_linux_${arch}.tar.gz`),
      checksums: github(repository, `v${COLLECTOR}`, "opentelemetry-collector-releases_otelcol-contrib_checksums.txt"),
      member: "otelcol-contrib",
    })),
    module: { folder: name, package: ".", ...build },
  };
}

/** The folder in which programs are cached between runs. */
export function cacheFolder(): string {
  return join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "atherops", "tools");
}

/** Returns the absolute path of a program, which is fetched if it is missing (with progress on stderr). Throws ToolError. */
export async function toolPath(name: string, progress: Progress = progressOn(process.stderr)): Promise<string> {
  return obtain(findByName(name), { ...toolLocations(), progress });
}

/** Returns the path of a program; undefined if it must be fetched first. */
export async function findTool(name: string): Promise<string | undefined> {
  return find(findByName(name), toolLocations());
}

function findByName(name: string): Tool {
  const tool = CATALOGUE.find((candidate) => candidate.name === name);
  if (tool === undefined)
    throw new ToolError(`unknown program ${name}; known programs: ${CATALOGUE.map((known) => known.name).join(", ")}`);
  return tool;
}

function toolLocations() {
  return { cache: cacheFolder(), path: process.env["PATH"] ?? "" };
}

/**
 * Returns paths by name. Fetches one program after the other, because a build uses all cores. Throws ToolError at the first failure.
 */
export async function fetchTools(names: readonly string[], { progress }: { progress: Progress }): Promise<Record<string, string>> {
  const paths: Record<string, string> = {};
  for (const [at, name] of names.entries()) {
    const count = `[${at + 1}/${names.length}]`;
    paths[name] = await toolPath(name, (line, live) => progress(`${count} ${line}`, live));
    progress(`${count} ${name}: ${paths[name]}`);
  }
  return paths;
}

/**
 * Identifies the components of our own collector: a cached build with older components must not be used. Comments of the manifest count too,
 * so a change of a comment makes every machine fetch or build the collector again, which takes up to 6 minutes.
 */
function componentsOf(folder: string): string {
  const manifest = readFileSync(new URL(`./tools/${folder}/manifest.yaml`, import.meta.url));
  return createHash("sha256").update(manifest).digest("hex").slice(0, 8);
}

function github(repository: string, tag: string, file: string): string {
  return `https://github.com/${repository}/releases/download/${tag}/${file}`;
}

function forLinux(release: (arch: string) => Release): Release | undefined {
  const arch = { x64: "amd64", arm64: "arm64" }[process.arch as string];
  return process.platform === "linux" && arch !== undefined ? release(arch) : undefined;
}

function withSuffix(url: string, suffix: string, member?: string): Release {
  return { url, checksums: url + suffix, member };
}

function victoriaMetricsRelease(bundle: string, member: string): Release | undefined {
  return forLinux((arch) => {
    const stem = github("VictoriaMetrics/VictoriaMetrics", `v${VICTORIA_METRICS}`, `${bundle}-linux-${arch}-v${VICTORIA_METRICS}`);
    return { url: `${stem}.tar.gz`, checksums: `${stem}_checksums.txt`, member };
  });
}

function victoriaMetricsModule(app: string): Tool["module"] {
  const root = "github.com/VictoriaMetrics/VictoriaMetrics";
  const variables = [`${root}/lib/buildinfo.Version=${app}-v${VICTORIA_METRICS}`];
  return { folder: "victoria-metrics", package: `${root}/app/${app}`, variables, takes: "1 minute" };
}

function kubernetes(name: string, versionArgs: string[], takes: string): Tool {
  const variables = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"].flatMap((path) => [
    `${path}.gitVersion=v${KUBERNETES}`,
    `${path}.gitMajor=1`,
    `${path}.gitMinor=34`,
  ]);
  return {
    name,
    version: KUBERNETES,
    versionArgs,
    release: forLinux((arch) => withSuffix(`https://dl.k8s.io/release/v${KUBERNETES}/bin/linux/${arch}/${name}`, ".sha256")),
    module: { folder: "kubernetes", package: `k8s.io/kubernetes/cmd/${name}`, variables, takes },
  };
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { help: { type: "boolean", short: "h" } } });
  if (values.help) return usage();
  const paths = await fetchTools(positionals.length > 0 ? positionals : TEST_TOOLS, { progress: progressOn(process.stderr) });
  for (const path of Object.values(paths)) console.log(path);
}

function usage(): void {
  console.log(`${readManual(import.meta.url)}\nKnown programs:\n${CATALOGUE.map((tool) => `  ${tool.name} ${tool.version}`).join("\n")}`);
}

if (import.meta.main) {
  await main().catch((error: unknown) => {
    if (!(error instanceof Error) || !(error instanceof ToolError || (error as { code?: string }).code?.startsWith("ERR_PARSE")))
      throw error;
    console.error(`fetch-tools: ${error.message}`);
    process.exitCode = 1;
  });
}
