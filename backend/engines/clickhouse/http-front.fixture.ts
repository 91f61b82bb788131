// Serves the part of ClickHouse's HTTP interface that our client uses, on the embedded engine, for tests of the url path without a server.
// Statements and inserts run on the real engine; network faults are injected with `faults`, and statements that only a cluster supports are
// rewritten (cluster-front.fixture.ts).
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { drainPending, Session } from "chdb";

/**
 * What happens to the next INSERT: it is refused with a code, or its connection is cut before or after the commit, or it is committed when
 * `until` resolves, as by a slow server or network. `isCut`: its connection is cut before that.
 */
export type InsertFault = { code: number } | "cut-before-commit" | "cut-after-commit" | HeldInsert;

export interface HeldInsert {
  readonly until: Promise<unknown>;
  readonly isCut?: boolean;
  readonly onEnd?: () => void;
}

export interface HttpFront extends AsyncDisposable {
  readonly url: string;
  /** Each insert of data consumes one. */
  readonly faults: InsertFault[];
  /** The settings of all inserts of data so far. */
  readonly inserts: Record<string, string>[];
}

export interface FrontOptions {
  readonly port?: number;
  /** Arguments of the engine. */
  readonly connectionArgs?: string[];
  /** The statements that the engine runs instead of one, in order. */
  readonly rewrite?: (statement: string, database: string) => string[];
}

const SESSIONS = 8;
const NOT_SETTINGS = new Set(["query", "query_id", "database", "user", "password", "session_id", "default_format"]);

export async function startHttpFront(dataDir: string, options: FrontOptions = {}): Promise<HttpFront> {
  const { port = 0, connectionArgs, rewrite = (statement) => [statement] } = options;
  // A session runs one statement at a time. The first one starts the engine with its arguments.
  const session = new Session(dataDir, connectionArgs ? { connectionArgs } : {});
  const others = Array.from({ length: SESSIONS - 1 }, () => new Session(dataDir));
  const idle = [...others];
  const faults: InsertFault[] = [];
  const inserts: Record<string, string>[] = [];
  const server = createServer((request, response) => {
    answer({ dataDir, session, idle, faults, inserts, rewrite }, request, response).catch((error: Error) => fail(response, error.message));
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/default`,
    faults,
    inserts,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
      for (const one of [session, ...others]) one.close();
      await drainPending();
    },
  };
}

interface Front {
  dataDir: string;
  session: Session;
  /** For tenants' queries and for cancelling them. */
  idle: Session[];
  faults: InsertFault[];
  inserts: Record<string, string>[];
  rewrite: NonNullable<FrontOptions["rewrite"]>;
}

async function answer(front: Front, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://front");
  if (pathname === "/ping") return void response.end("Ok.\n");
  const body = await buffer(request);
  const statement = searchParams.get("query");
  const database = searchParams.get("database") ?? "default";
  if (statement === null || statement.startsWith("SELECT")) {
    const text = statement ?? body.toString();
    const own = /log_comment/.test(text) || database !== "default" || statement !== null ? front.idle.pop() : undefined;
    const session = own ?? front.session;
    try {
      if (own) await own.queryAsync(`USE ${database}`);
      const texts = front.rewrite(text, database);
      const format = searchParams.get("default_format") ?? "TabSeparated";
      for (const earlier of texts.slice(0, -1)) await session.queryAsync(earlier);
      const result = await session.queryAsync(texts.at(-1) ?? "SELECT 1", { format });
      return void response.end(result.bytes());
    } catch (error) {
      // A session keeps a failed statement until the next one.
      await own?.queryAsync("SELECT 1");
      throw error;
    } finally {
      if (own) front.idle.push(own);
    }
  }
  const settings = Object.fromEntries([...searchParams].filter(([name]) => !NOT_SETTINGS.has(name) && !/http|wait_end/.test(name)));
  front.inserts.push(settings);
  const fault = front.faults.shift();
  if (fault === "cut-before-commit") return void response.destroy();
  if (typeof fault === "object" && "code" in fault) return fail(response, `Code: ${fault.code}. DB::Exception: injected. (INJECTED_FAULT)`);
  if (typeof fault === "object") {
    if (fault.isCut) response.destroy();
    await fault.until;
  }
  const clause = Object.entries(settings)
    .map(([name, value]) => `${name} = '${value}'`)
    .join(", ");
  const file = join(front.dataDir, randomUUID());
  await writeFile(file, body);
  try {
    await front.session.queryAsync(statement.replace(" FORMAT Native", ` SETTINGS ${clause} SELECT * FROM file('${file}', 'Native')`));
  } finally {
    await rm(file);
    if (typeof fault === "object") fault.onEnd?.();
  }
  if (fault === "cut-after-commit") return void response.destroy();
  response.end();
}

function fail(response: ServerResponse, message: string): void {
  const code = /Code: (\d+)/.exec(message)?.[1] ?? "0";
  response.writeHead(500, { "x-clickhouse-exception-code": code }).end(message);
}
