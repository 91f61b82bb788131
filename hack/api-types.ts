// Generates the TypeScript types of the HTTP API from docs/openapi.json, for the CLI and the console. openapi-typescript cannot run here: it
// needs the compiler API of TypeScript 5. Only the keywords of JSON schema that our routes use are
// supported.

interface Schema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
}
interface Content {
  readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>;
}
interface Operation {
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}
export interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

const HEADER = `// Generated from docs/openapi.json by \`npm run reference\` (hack/api-types.ts). Do not edit. Invariant: these are the only types of requests and
// responses in the CLI and the console.
`;

/** The page with the types of all JSON bodies, by operation. */
export function printApiTypes({ paths }: Document): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [`${method.toUpperCase()} ${path}`, operation] as const),
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

function printEntry(name: string, source: Content | undefined): string[] {
  const schema = source?.content?.["application/json"]?.schema;
  return schema ? [`  readonly ${JSON.stringify(name)}: ${printType(schema, "  ")};`] : [];
}

function printType(schema: Schema, indent: string): string {
  if (schema.anyOf && schema.type === undefined) return schema.anyOf.map((choice) => printType(choice, indent)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const types = schema.type === undefined ? [] : [schema.type].flat();
  if (types.length === 0) return "unknown";
  return types.map((type) => printSimple(type, schema, indent)).join(" | ");
}

function printSimple(type: string, schema: Schema, indent: string): string {
  if (type === "array") return `readonly ${parenthesise(printType(schema.items ?? {}, indent))}[]`;
  if (type === "object") return printObject(schema, indent);
  if (type === "integer" || type === "number") return "number";
  if (type === "string" || type === "boolean" || type === "null") return type;
  throw new Error(`the schema has an unsupported type: ${type}`);
}

function printObject({ properties, required = [], additionalProperties }: Schema, indent: string): string {
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

function parenthesise(type: string): string {
  return / \| /.test(type.replaceAll(/[{<][^]*[}>]/g, "")) || type.startsWith("readonly ") ? `(${type})` : type;
}
