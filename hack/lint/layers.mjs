// The oxlint plugin `layers`. Its rule `imports` enforces which folder may import which (ARCHITECTURE.md, "Folders and layers"), type
// imports and dynamic imports included. hack/layers.test.ts breaks each line of the table and expects a report.
import { dirname, join, relative } from "node:path";

/** Nothing else in backend/ imports these. */
const CLIENTS = ["backend/cli/", "backend/console/"];

/** A folder of backend/ that knows nothing of the folders that use it. */
function usedBy(name, users) {
  return {
    folder: `backend/${name}/`,
    imports: ["backend/", "common/"],
    not: [...CLIENTS, ...users.map((user) => `backend/${user}/`)],
    why: `backend/${name}/ knows nothing of the folders that use it (${users.join(", ")})`,
  };
}

/** The first entry whose folder contains the file applies. If `packages` is missing, any package is allowed. */
const LAYERS = [
  { folder: "common/", imports: ["common/"], packages: [], why: "common/ is part of both programs: node: imports and its own files only" },
  {
    folder: "backend/cli/",
    imports: ["backend/cli/", "backend/client/", "common/"],
    packages: ["commander", "yaml"],
    why: "the program atherops uses the HTTP API: its own files, backend/client/, common/, commander and yaml only",
  },
  { folder: "backend/client/", imports: ["backend/client/"], packages: [], why: "backend/client/ is bundled into the CLI and the console" },
  {
    folder: "backend/console/",
    imports: ["backend/console/", "backend/client/", "docs/dashboards/"],
    why: "the console uses the HTTP API: its own files, backend/client/, docs/dashboards/ and packages only",
  },
  {
    folder: "backend/engines/",
    imports: ["backend/engines/", "backend/admission/", "backend/errors.ts", "backend/log.ts", "common/"],
    why: "engines know no domain: the domain imports engines, never the reverse",
  },
  usedBy("http", ["auth", "tenants", "ingest", "storage", "query", "alerting", "notification", "replicas"]),
  usedBy("storage", ["tenants", "ingest", "query", "alerting", "notification"]),
  usedBy("auth", ["tenants", "ingest", "storage", "query", "alerting", "notification"]),
  usedBy("replicas", ["tenants", "ingest", "storage", "query", "alerting", "notification"]),
  {
    folder: "backend/",
    imports: ["backend/", "common/"],
    not: CLIENTS,
    why: "backend/ imports common/ and its own files, but not the CLI or the console",
  },
  { folder: "agent/", imports: ["agent/", "common/"], why: "agent/ imports common/ and its own files only" },
];

const startsWithOne = (path, prefixes) => prefixes.some((prefix) => path.startsWith(prefix));

/** Returns why `file` may not import `path` (both relative to the repository, or a package); undefined if it may. */
function refusal(file, path) {
  const layer = LAYERS.find(({ folder }) => file.startsWith(folder));
  if (layer === undefined) return undefined;
  if (/^(?:node:)?process$/.test(path)) return "process is a global, and only settings.ts reads the environment";
  if (path.startsWith("@atherops/")) return "imports inside the repository are relative";
  if (path.startsWith("node:")) return undefined;
  if (!path.startsWith(".")) return layer.packages === undefined || layer.packages.includes(path) ? undefined : layer.why;
  const target = join(dirname(file), path);
  return startsWithOne(target, layer.imports) && !startsWithOne(target, layer.not ?? []) ? undefined : layer.why;
}

const imports = {
  create(context) {
    const file = relative(context.cwd, context.filename);
    const check = ({ source }) => {
      if (typeof source?.value !== "string") return;
      const why = refusal(file, source.value);
      if (why !== undefined) context.report({ node: source, message: `${why}.` });
    };
    return { ImportDeclaration: check, ImportExpression: check, ExportNamedDeclaration: check, ExportAllDeclaration: check };
  },
};

// oxlint loads the default export of a plugin.
export default { meta: { name: "layers" }, rules: { imports } };
