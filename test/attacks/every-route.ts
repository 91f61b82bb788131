// Attacks routes without a specific attack in the same way: their parameters are as large, as deep and as unusual as a request may be.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../fixtures/processes.ts";
import type { Attack, Attacker, Call } from "./attack.ts";

/** Nearly the header limit of the server. */
const QUERY_CHARACTERS = 14_000;
/** The first fits into every route, the second into none but those of telemetry. */
const BODY_BYTES = [60_000, 900_000];
const LEVEL = '{"a":';

export interface Operation {
  readonly requestBody?: { readonly content?: Readonly<Record<string, object>> };
}

/** Every operation of docs/openapi.json by its route, as "METHOD /path". */
export const OPERATIONS: ReadonlyMap<string, Operation> = new Map(
  Object.entries(readPaths()).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [`${method.toUpperCase()} ${path}`, operation]),
  ),
);

function readPaths(): Record<string, Record<string, Operation>> {
  const document = readFileSync(join(ROOT, "docs", "openapi.json"), "utf8");
  return (JSON.parse(document) as { paths: Record<string, Record<string, Operation>> }).paths;
}

const filled = (path: string): string => path.replaceAll(/\{\w+\}/g, () => randomUUID());

/** Parameters that most routes know, with values that no route expects. */
function hostileQuery(turn: number): string {
  const kinds = [
    `limit=${"9".repeat(QUERY_CHARACTERS)}`,
    `start=0&end=9999999999&limit=100000&q=${"%25".repeat(QUERY_CHARACTERS / 3)}`,
    `match[]=${encodeURIComponent(`{a=~"${"(a?)".repeat(1000)}"}`)}`,
    `regex=${encodeURIComponent("(((a*)*)*)*b")}&tags=${encodeURIComponent(`{"a":"${"b".repeat(5000)}"}`)}`,
    Array.from({ length: 1000 }, (_, index) => `label.k${index}=v`).join("&"),
  ];
  return kinds[turn % kinds.length] ?? "";
}

function hostileBody(turn: number): Buffer {
  const bytes = BODY_BYTES[turn % BODY_BYTES.length] ?? 0;
  const depth = Math.floor(bytes / (LEVEL.length + 1)) - 1;
  const kinds = [
    () => "[".repeat(bytes),
    () => `${LEVEL.repeat(depth)}1${"}".repeat(depth)}`,
    () => `{${Array.from({ length: Math.floor(bytes / 15) }, (_, index) => `"key-${index}":1`).join(",")}}`,
    () => `{"name":"${"\\u0041".repeat(bytes / 6 - 5)}"}`,
    () => `{"__proto__":{"a":1},"constructor":{"prototype":{"a":1}},"name":"${"é".repeat(bytes / 2 - 60)}"}`,
  ];
  return Buffer.from(kinds[turn % kinds.length]?.() ?? "{}");
}

async function inTurn(attacker: Attacker, calls: readonly Call[], turn: number): Promise<void> {
  const batch = Array.from({ length: 8 }, (_, index) => calls[(turn * 8 + index) % calls.length]);
  await attacker.many(batch.length, 4, async (index) => {
    const call = batch[index];
    if (call) await attacker.call(call);
  });
}

/** `routes`: as "GET /path". */
export const everyRead = (routes: readonly string[]): Attack => ({
  group: "more",
  what: "each list and resource with parameters of 14 kB: numbers, expressions, a thousand labels",
  everyMs: 200,
  async wave(attacker, turn) {
    const { adminToken: bearer } = attacker.target;
    const calls = routes.map((route, index): Call => {
      const path = filled(route.slice("GET ".length));
      return { method: "GET", path: `${path}?${hostileQuery(turn + index)}`, bearer };
    });
    await inTurn(attacker, calls, turn);
  },
});

/** `routes`: as "POST /path". */
export const everyWrite = (routes: readonly string[]): Attack => ({
  group: "more",
  what: "each change with bodies of 60 and of 900 kB: open brackets, 10,000 levels, 60,000 keys, escapes",
  everyMs: 200,
  async wave(attacker, turn) {
    const { adminToken: bearer } = attacker.target;
    const headers = { "content-type": "application/json", "idempotency-key": randomUUID() };
    const calls = routes.map((route, index) => {
      const [method, path] = route.split(" ") as ["POST" | "PUT" | "DELETE", string];
      return { method, path: filled(path), bearer, headers, body: method === "DELETE" ? Buffer.alloc(0) : hostileBody(turn + index) };
    });
    await inTurn(attacker, calls, turn);
  },
});
