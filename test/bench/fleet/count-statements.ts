// Loaded into a backend before its program (`node --import`): counts its statements on the accounts store by purpose, and writes the counts
// to the file FLEET_STATEMENTS twice a second. It does not change the statements. Both drivers are wrapped at the
// function that sends a statement: SQLite's sends it to the store's thread, PostgreSQL's to the server. BEGIN counts with the first
// statement of its transaction, COMMIT with the last one, because the statements of one connection follow each other.
import { renameSync, writeFileSync } from "node:fs";
import { isMainThread, Worker } from "node:worker_threads";

export interface StatementCounts {
  /** Time at which the counts were written, by a monotonic clock. */
  readonly ms: number;
  readonly counts: Readonly<Record<string, number>>;
}

export const HEARTBEATS = "heartbeats";
const WRITE_MS = 500;
const TRANSACTION = { begin: /^\s*(begin|start transaction)/i, end: /^\s*(commit|rollback)/i };
/** The first that fits. */
const KINDS: readonly [kind: string, words: RegExp][] = [
  ["what has changed", /\bknown\.key\b/],
  ["look-ups", /select .* from "(api_keys|users|read_tokens)" where "(key_hash|id)" in/i],
  ["first uses", /update "api_keys" set "first_used_at"/],
  ["keys, users and tokens, else", /\b(api_keys|users|read_tokens|install_tokens|orgs)\b/],
  [HEARTBEATS, /\b(clusters|cluster_nodes|hosts)\b/],
  ["rules", /\b(rules|rule_sets)\b/],
  ["else", /./],
];
const counts: Record<string, number> = {};
/** By connection: transactions that have begun without a statement, and the last statement. */
const connections = new WeakMap<object, { begun: number; last: string }>();

function count(connection: object, text: unknown): void {
  if (typeof text !== "string") return;
  const known = connections.get(connection) ?? { begun: 0, last: "else" };
  connections.set(connection, known);
  if (TRANSACTION.begin.test(text)) known.begun += 1;
  else {
    if (!TRANSACTION.end.test(text)) known.last = KINDS.find(([, words]) => words.test(text))?.[0] ?? "else";
    counts[known.last] = (counts[known.last] ?? 0) + 1 + known.begun;
    known.begun = 0;
  }
}

type Call = (this: object, ...args: unknown[]) => unknown;

function counted(prototype: object, name: string, textOf: (first: unknown) => unknown): void {
  const made = Reflect.get(prototype, name) as Call;
  Reflect.set(prototype, name, function (this: object, ...args: unknown[]): unknown {
    count(this, textOf(args[0]));
    return made.apply(this, args);
  });
}

function sqlOf(message: unknown): unknown {
  return (message as { sql?: unknown } | undefined)?.sql;
}

function textOf(query: unknown): unknown {
  return typeof query === "string" ? query : (query as { text?: unknown } | undefined)?.text;
}

const file = process.env["FLEET_STATEMENTS"];
if (isMainThread && file !== undefined) {
  counted(Worker.prototype, "postMessage", sqlOf);
  if (process.env["DATABASE_URL"]) counted((await import("pg")).default.Client.prototype, "query", textOf);
  const write = (): void => {
    writeFileSync(`${file}.draft`, JSON.stringify({ ms: performance.now(), counts } satisfies StatementCounts));
    renameSync(`${file}.draft`, file);
  };
  write();
  setInterval(write, WRITE_MS).unref();
}
