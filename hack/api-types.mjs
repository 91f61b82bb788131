// Generates the TypeScript types of the HTTP API, for the CLI and the console, from docs/openapi.json. openapi-typescript cannot do it,
// because it needs the compiler API of TypeScript 5. Supports only the keywords of JSON schema that our routes use. Plain JavaScript, for any
// Node >= 20: hack/bootstrap.mjs and vitest call it before anything runs. The result, `api` in backend/client, is not committed.
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const DOCUMENT = join(ROOT, "docs", "openapi.json");
const TARGET = join(ROOT, "backend", "client", "api.ts");
const HEADER = `// Generated from docs/openapi.json by hack/api-types.mjs, not committed. Invariant: these are the only types of requests and responses in the
// CLI and the console.
`;

/** Writes the file if its contents changed. An image has no docs, and needs no types. */
export function buildApiTypes() {
  if (!existsSync(DOCUMENT)) return;
  const text = printApiTypes(JSON.parse(readFileSync(DOCUMENT, "utf8")));
  if (existsSync(TARGET) && readFileSync(TARGET, "utf8") === text) return;
  const draft = `${TARGET}.${process.pid}.draft`;
  writeFileSync(draft, text);
  renameSync(draft, TARGET);
}

/** Vitest's globalSetup. */
export const setup = buildApiTypes;

/** The types of all JSON bodies, by operation. */
function printApiTypes({ paths }) {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [`${method.toUpperCase()} ${path}`, operation]),
  );
  const responses = operations.flatMap(([name, { responses }]) => {
    const success = Object.entries(responses).find(([status, { content }]) => status.startsWith("2") && content?.["application/json"]);
    return printEntry(name, success?.[1]);
  });
  const bodies = operations.flatMap(([name, { requestBody }]) => printEntry(name, requestBody));
  return [
    HEADER,
    "/** JSON bodies of successful responses. */\nexport interface ApiResponses {",
    ...responses,
    "}\n\n/** JSON bodies of requests. Fields with a default are optional. */\nexport interface ApiBodies {",
    ...bodies,
    "}\n",
  ].join("\n");
}

function printEntry(name, source) {
  const schema = source?.content?.["application/json"]?.schema;
  return schema ? [`  readonly ${JSON.stringify(name)}: ${printType(schema, "  ")};`] : [];
}

function printType(schema, indent) {
  if (schema.anyOf && schema.type === undefined) return schema.anyOf.map((choice) => printType(choice, indent)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const types = schema.type === undefined ? [] : [schema.type].flat();
  if (types.length === 0) return "unknown";
  return types.map((type) => printSimple(type, schema, indent)).join(" | ");
}

function printSimple(type, schema, indent) {
  if (type === "array") return `readonly ${parenthesise(printType(schema.items ?? {}, indent))}[]`;
  if (type === "object") return printObject(schema, indent);
  if (type === "integer" || type === "number") return "number";
  if (type === "string" || type === "boolean" || type === "null") return type;
  throw new Error(`the schema has an unsupported type: ${type}`);
}

function printObject({ properties, required = [], additionalProperties }, indent) {
  if (!properties) {
    const value = typeof additionalProperties === "object" ? printType(additionalProperties, indent) : "unknown";
    return `Readonly<Record<string, ${value}>>`;
  }
  const inner = `${indent}  `;
  const fields = Object.entries(properties).map(([name, schema]) => {
    const key = /^[a-zA-Z_]\w*$/.test(name) ? name : JSON.stringify(name);
    return `${inner}readonly ${key}${required.includes(name) ? "" : "?"}: ${printType(schema, inner)};`;
  });
  return ["{", ...fields, `${indent}}`].join("\n");
}

function parenthesise(type) {
  return / \| /.test(type.replaceAll(/[{<][^]*[}>]/g, "")) || type.startsWith("readonly ") ? `(${type})` : type;
}
