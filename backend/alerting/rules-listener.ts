// Serves the rules of all organisations to an external vmalert (`-rule=http://vmalert:…@host:8083/rules`), and receives its alerts, on a
// separate listener. Invariants: it serves nothing without the password and is never part of the public addresses; if the database is
// unavailable, it returns the last known rules, because a vmalert that starts without rules forgets its alerts. Rules are sent group by
// group, because all of them together could exceed the maximum length of a string.
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Outage } from "../../common/outage.ts";
import { isInShard, parseShard, type Shard } from "../engines/vmalert/vmalert-shards.ts";
import { ruleFileParts } from "../engines/vmalert/rule-files.ts";
import type { Log } from "../log.ts";
import { hasCredentials, type InternalListener, listenInternally, vmalertCredentials } from "../http/internal-listener.ts";
import { MAX_RULES_CONNECTIONS } from "./alerting-limits.ts";
import type { RuleSet, RuleSets } from "./rule-groups.ts";

export interface RulesListenerOptions {
  readonly listen: { readonly host: string; readonly port: number };
  /** Password of the Basic-auth user `vmalert` for reading rules. vmalert logs it as part of the URL of `-rule`. */
  readonly password: string;
  /** Password of the Basic-auth user `vmalert` for posting alerts of any organisation; undefined: posting is not allowed. */
  readonly alertsPassword?: string | undefined;
  readonly ruleSets: RuleSets;
  readonly log: Log;
  /** Handles what the evaluator posts to `/api/v2/alerts`; without it, the response is 503. */
  readonly takeAlerts?: ((request: IncomingMessage, response: ServerResponse) => Promise<void>) | undefined;
}

const PATH = "/rules";
const SHARD_PATH = `${PATH}?shard=`;
const ALERTS_PATH = "/api/v2/alerts";

export async function startRulesListener(options: RulesListenerOptions): Promise<InternalListener> {
  const rules = new LastKnownRules(options.ruleSets, options.log);
  const { password, alertsPassword, takeAlerts } = options;
  const serving = {
    reading: vmalertCredentials(password),
    posting: alertsPassword === undefined ? undefined : vmalertCredentials(alertsPassword),
    rules,
    takeAlerts,
  };
  return await listenInternally("RULES_LISTEN", options.listen, MAX_RULES_CONNECTIONS, (request, response) => {
    void respond(request, response, serving);
  });
}

interface Serving {
  /** Digests of accepted Authorization headers. */
  readonly reading: Buffer;
  readonly posting: Buffer | undefined;
  readonly rules: LastKnownRules;
  readonly takeAlerts: RulesListenerOptions["takeAlerts"];
}

async function respond(request: IncomingMessage, response: ServerResponse, serving: Serving): Promise<void> {
  const { reading, posting, rules, takeAlerts } = serving;
  const end = (status: number, text: string) => {
    request.resume();
    response.writeHead(status, { "content-type": "text/plain; charset=utf-8" }).end(text);
  };
  const isPosting = request.method === "POST" && request.url === ALERTS_PATH;
  const expected = isPosting ? posting : reading;
  if (!expected) return end(401, "ALERTS_PASSWORD of the alerting service is not set: alerts are not accepted here\n");
  if (!hasCredentials(request, expected)) return end(401, "wrong password for user vmalert\n");
  if (isPosting && takeAlerts) return await takeAlerts(request, response);
  const shard = shardOf(request.url ?? "");
  if (request.method !== "GET" || !shard) return end(404, `not found; the routes are GET ${PATH} and POST ${ALERTS_PATH}\n`);
  request.resume();
  const groups = await rules.read(shard);
  if (groups === undefined) return end(503, "the database cannot be reached\n");
  response.writeHead(200, { "content-type": "text/plain; charset=utf-8" });
  // A vmalert that disconnects during the response requests the rules again.
  await pipeline(Readable.from(ruleFileParts(groups)), response).catch(() => undefined);
}

/** The shard of the rules that `url` requests; undefined for another path. */
function shardOf(url: string): Shard | undefined {
  if (url === PATH) return { index: 0, count: 1 };
  return url.startsWith(SHARD_PATH) ? parseShard(url.slice(SHARD_PATH.length).replace("%2F", "/")) : undefined;
}

class LastKnownRules {
  readonly #ruleSets: RuleSets;
  readonly #outage: Outage;
  #sets: readonly RuleSet[] | undefined;

  constructor(ruleSets: RuleSets, log: Log) {
    this.#ruleSets = ruleSets;
    this.#outage = new Outage({
      began: (err) => log.warn({ event: "evaluator.rules_unreadable", err }, "cannot read rules, serving the last known ones"),
      ended: ({ failures, seconds }) =>
        log.info({ event: "evaluator.rules_readable", failures, seconds }, "recovered: rules can be read again"),
    });
  }

  /** Each group as `renderGroup` wrote it. */
  async read(shard: Shard): Promise<readonly string[] | undefined> {
    try {
      this.#sets = [...(await this.#ruleSets.read()).values()].filter(({ text }) => text !== "");
      this.#outage.recovered();
    } catch (error) {
      this.#outage.failed(error);
    }
    return this.#sets?.filter(({ orgId }) => isInShard(orgId, shard)).map(({ text }) => text);
  }
}
