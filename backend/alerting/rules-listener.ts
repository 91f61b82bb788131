// Offers the rule file to an external vmalert (`-rule=http://vmalert:…@host:8083/rules`) on a listener of its own. Invariant: it
// serves nothing without the password and is never part of the public addresses; when the database is away it answers with the last
// file it knows, because a vmalert that starts without rules forgets its alerts. Started by serve.ts with RULES_LISTEN.
import { cannotListen } from "../start-error.ts";
import { createHash, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { Log } from "../log.ts";
import { ruleFileOf, type RuleSets } from "./rule-set.ts";

export interface RulesListenerOptions {
  readonly listen: { readonly host: string; readonly port: number };
  /** Basic-auth password of the user `vmalert`. */
  readonly password: string;
  readonly ruleSets: RuleSets;
  readonly log: Log;
}

export interface RulesListener extends AsyncDisposable {
  readonly port: number;
}

const PATH = "/rules";

/** Resolves once it listens. */
export async function startRulesListener(options: RulesListenerOptions): Promise<RulesListener> {
  const file = new LastKnownFile(options.ruleSets, options.log);
  const expected = digest(`Basic ${Buffer.from(`vmalert:${options.password}`).toString("base64")}`);
  const server = createServer((request, response) => void answer(request, response, expected, file));
  server.requestTimeout = 10_000;
  server.listen(options.listen.port, options.listen.host);
  await once(server, "listening").catch((cause: NodeJS.ErrnoException) => {
    throw cannotListen("RULES_LISTEN", options.listen, cause);
  });
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function answer(request: IncomingMessage, response: ServerResponse, expected: Buffer, file: LastKnownFile): Promise<void> {
  request.resume();
  const end = (status: number, text: string) => void response.writeHead(status, { "content-type": "text/plain; charset=utf-8" }).end(text);
  if (!timingSafeEqual(digest(request.headers.authorization ?? ""), expected)) return end(401, "wrong password of user vmalert\n");
  if (request.method !== "GET" || request.url !== PATH) return end(404, `GET ${PATH} is all there is here\n`);
  const text = await file.read();
  if (text === undefined) return end(503, "the database cannot be reached\n");
  end(200, text);
}

class LastKnownFile {
  readonly #ruleSets: RuleSets;
  readonly #log: Log;
  #text: string | undefined;

  constructor(ruleSets: RuleSets, log: Log) {
    this.#ruleSets = ruleSets;
    this.#log = log;
  }

  async read(): Promise<string | undefined> {
    try {
      this.#text = ruleFileOf(await this.#ruleSets.read());
    } catch (error) {
      this.#log.warn({ err: error }, "the rules cannot be read for the evaluator; it gets those known before");
    }
    return this.#text;
  }
}

/** Of equal length, so that they can be compared in constant time. */
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
