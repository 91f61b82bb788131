// Lists the contents of a release as CycloneDX: npm's own list of the packages in the lock file, the programs next to them, and the Go
// modules that are linked into those. Invariant: two runs from one commit write the same bytes.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { CATALOGUE, toolPath } from "../fetch-tools.ts";
import { readGoModules } from "./go-modules.ts";

interface Sbom {
  serialNumber?: string;
  metadata: { timestamp: string; component: { name: string } };
  components: object[];
}

/** Programs in the packages and images of each workspace, with the repositories of their releases. */
const PROGRAMS = {
  agent: { "otelcol-contrib": "open-telemetry/opentelemetry-collector-releases" },
  backend: { "victoria-metrics": "VictoriaMetrics/VictoriaMetrics", vmalert: "VictoriaMetrics/VictoriaMetrics" },
} as const;
export const WORKSPACES = Object.keys(PROGRAMS) as (keyof typeof PROGRAMS)[];

/** `root`: of the checkout. `epoch`: seconds of the commit. */
export async function readSbom(root: string, workspace: keyof typeof PROGRAMS, epoch: string): Promise<object> {
  const args = ["sbom", "--sbom-format", "cyclonedx", "--omit", "dev", "--workspace", `@atherops/${workspace}`, "--package-lock-only"];
  const { stdout } = await execa("npm", args, { cwd: root });
  const sbom = JSON.parse(stdout) as Sbom;
  delete sbom.serialNumber;
  // npm would use the name of the checkout's folder.
  sbom.metadata.component.name = `atherops-${workspace}`;
  sbom.metadata.timestamp = new Date(Number(epoch) * 1000).toISOString();
  const node = nodeVersion(root);
  sbom.components.push(component("application", "node", node, `pkg:generic/node@${node}`));
  const modules = new Map<string, object>();
  for (const [name, repository] of Object.entries(PROGRAMS[workspace])) {
    const version = CATALOGUE.find((tool) => tool.name === name)?.version ?? "";
    sbom.components.push(component("application", name, version, `pkg:github/${repository}@v${version}#${name}`));
    for (const { path, version: of } of readGoModules(await toolPath(name))) {
      const purl = `pkg:golang/${path}@${of}`;
      modules.set(purl, component("library", path, of, purl));
    }
  }
  return { ...sbom, components: [...sbom.components, ...modules.values()], version: 1 };
}

function component(type: string, name: string, version: string, purl: string): object {
  return { "bom-ref": purl, type, name, version, purl };
}

/** Version of the pinned Node.js. */
export function nodeVersion(root: string): string {
  return (JSON.parse(readFileSync(join(root, "node_modules/node/package.json"), "utf8")) as { version: string }).version;
}
