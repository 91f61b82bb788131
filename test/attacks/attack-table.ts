// Every attack: who can make it, and which routes, protocols and parts of the query language it covers.
// Routes of docs/openapi.json that no row covers are attacked by "every-read" and "every-write".
import { guessedInvitations, unknownUsersPasswords, inventedNodes } from "./accounts.ts";
import { hostileMatchers, hostileTemplates } from "./alerting.ts";
import type { Attack } from "./attack.ts";
import { amplified, denseJson } from "./bodies.ts";
import { unauthenticated } from "./hostile-connections.ts";
import { everyRead, everyWrite, OPERATIONS } from "./every-route.ts";
import { millionValues, unreadTails, wholeRetentionRegex } from "./expensive.ts";
import * as logql from "./logql.ts";
import { fileLines } from "./file-lines.ts";
import * as floods from "./floods.ts";
import * as http2 from "./http2-frames.ts";
import { heartbeatFlood, mintedCredentials, ruleChurn } from "./more-accounts.ts";
import { bombs, deepAndWide, drippingBodies, largestBodies, logFlood, longSeries, newSeries, wideDays } from "./more-bodies.ts";
import { allConnections, loginFlood, pipelined, silentConnections } from "./more-connections.ts";
import { costlyExpressions, costlyRules, largeLogQueries, longHistories, wideLabels } from "./more-queries.ts";
import { otlpBodies, otlpMetrics, otlpSenders, signedOtlpBodies } from "./attack-bodies.ts";
import { costlyPromql, largeAnswers, slowLogQueries } from "./queries.ts";
import { grpcCalls, lokiPush, remoteWrite } from "./attack-senders.ts";
import { abandonedDrafts, hugeRules, longExpressions } from "./attack-rules.ts";

/** The weakest credential with which an attack is possible. */
export type Who = "unauthenticated client" | "ingest token" | "ingest key" | "agent key" | "read token or viewer" | "administrator";

export interface Row {
  readonly attack: Attack;
  readonly who: Who;
  /**
   * Routes as "METHOD /path" of docs/openapi.json, one kind of their bodies as "METHOD /path as content/type", "encoding: name",
   * "listener: SETTING", and other protocols as "protocol: name".
   */
  readonly covers: readonly string[];
}

const LOKI = "GET /query/loki/loki/api/v1";
const PROMETHEUS = "/query/prometheus/api/v1";
const LOGS = "POST /ingest/logs/otlp";
const TRACES = "POST /ingest/traces";
const METRICS = "POST /ingest";
const OTLP = ["logs", "traces", "metrics"].flatMap((signal) => [`POST /v1/${signal}`, `POST /v1/${signal} as application/x-protobuf`]);
const QUERY_RANGE = [`${LOKI}/query_range`, `${LOKI}/query`];

const byReader = (attack: Attack, covers: readonly string[] = QUERY_RANGE): Row => ({ attack, who: "read token or viewer", covers });
const byKey = (attack: Attack, covers: readonly string[]): Row => ({ attack, who: "ingest key", covers });
const byToken = (attack: Attack, covers: readonly string[]): Row => ({ attack, who: "ingest token", covers });
const byAgent = (attack: Attack, covers: readonly string[]): Row => ({ attack, who: "agent key", covers });
const byAdministrator = (attack: Attack, covers: readonly string[]): Row => ({ attack, who: "administrator", covers });
const byAnybody = (attack: Attack, covers: readonly string[]): Row => ({ attack, who: "unauthenticated client", covers });

const SPECIFIC: Readonly<Record<string, Row>> = {
  "amplified-resource": byKey(amplified, [LOGS, TRACES]),
  "unauthenticated-bodies": byAnybody(unauthenticated, ["protocol: bodies without a credential", "protocol: unknown routes"]),
  "large-answers": byReader(largeAnswers, ["GET /query/logs", "protocol: unread answers"]),
  "slow-log-queries": byReader(slowLogQueries, ["GET /query/logs"]),
  "costly-promql": byReader(costlyPromql, [`GET ${PROMETHEUS}/query_range`]),
  "long-expressions": byReader(longExpressions, ["POST /alerting/rules/validate"]),
  "dense-json": byKey(denseJson, [LOGS]),
  "huge-rules": byAdministrator(hugeRules, ["POST /alerting/rules"]),
  "abandoned-drafts": byReader(abandonedDrafts, ["POST /alerting/rules/validate"]),
  "unknown-users-passwords": byAdministrator(unknownUsersPasswords, ["PUT /api/users/{id}/password", "POST /api/users"]),
  "guessed-invitations": byAnybody(guessedInvitations, [
    "POST /api/auth/invitation",
    "POST /api/auth/invitation/accept",
    "PUT /api/auth/password",
  ]),
  "invented-nodes": byAgent(inventedNodes, ["POST /heartbeat", "GET /api/clusters"]),
  "largest-bodies": byKey(largestBodies, [LOGS, TRACES, METRICS]),
  "file-lines": byAgent(fileLines, [LOGS, `${LOGS} as application/x-protobuf`]),
  "signed-otlp-bodies": byAgent(
    signedOtlpBodies,
    [LOGS, TRACES, METRICS].map((route) => `${route} as application/x-protobuf`),
  ),
  "otlp-bodies": byToken(otlpBodies, OTLP),
  "otlp-metrics": byToken(otlpMetrics, ["POST /v1/metrics"]),
  "loki-push": byToken(lokiPush, ["POST /loki/api/v1/push", "POST /loki/api/v1/push as application/x-protobuf"]),
  "remote-write": byToken(remoteWrite, ["POST /api/v1/write", "POST /api/v1/write as application/x-protobuf"]),
  "grpc-calls": byToken(grpcCalls, ["listener: OTLP_GRPC_LISTEN", "protocol: gRPC"]),
  "otlp-senders": byToken(otlpSenders, ["POST /v1/logs", "POST /v1/traces"]),
  "log-flood": byKey(logFlood, [LOGS]),
  "wide-days": byKey(wideDays, [LOGS]),
  "new-series": byKey(newSeries, [METRICS]),
  "long-series": byKey(longSeries, [METRICS]),
  "deep-and-wide": byKey(deepAndWide, [LOGS]),
  bombs: byKey(bombs, [LOGS, TRACES, METRICS, "encoding: gzip", "encoding: zstd"]),
  "dripping-bodies": byKey(drippingBodies, ["protocol: slow bodies"]),
  "silent-connections": byAnybody(silentConnections, ["protocol: slow headers", "protocol: idle connections"]),
  pipelined: byReader(pipelined, ["protocol: pipelined requests"]),
  "login-flood": byAnybody(loginFlood, ["POST /api/auth/login", "POST /api/clusters/register", METRICS]),
  "all-connections": byKey(allConnections, ["protocol: all connections", "listener: API_LISTEN"]),
  "wide-labels": byReader(wideLabels, [
    `POST ${PROMETHEUS}/query`,
    `GET ${PROMETHEUS}/label/{name}/values`,
    `GET ${PROMETHEUS}/labels`,
    `GET ${PROMETHEUS}/series`,
    `POST ${PROMETHEUS}/series`,
  ]),
  "costly-expressions": byReader(costlyExpressions, [
    `GET ${PROMETHEUS}/query`,
    `POST ${PROMETHEUS}/query`,
    `POST ${PROMETHEUS}/query_range`,
    "POST /alerting/rules/validate",
  ]),
  "costly-rules": byAdministrator(costlyRules, ["POST /alerting/rules"]),
  "long-histories": byReader(longHistories, [
    "GET /alerting/rules",
    "GET /alerting/rules/{id}/history",
    "GET /alerting/rules/{id}/status",
    "GET /query/traces",
  ]),
  "minted-credentials": byAdministrator(mintedCredentials, [
    "POST /api/install-tokens",
    "GET /api/install-tokens",
    "POST /api/keys",
    "GET /api/keys",
    "POST /api/users",
    "GET /api/users",
    "GET /api/v1/agents",
  ]),
  "heartbeat-flood": byAgent(heartbeatFlood, ["POST /heartbeat", "POST /api/clusters/rotate-key"]),
  "rule-churn": byAdministrator(ruleChurn, ["POST /alerting/rules"]),
  "whole-retention-regex": byReader(wholeRetentionRegex, [
    "GET /query/logs/patterns",
    "GET /query/logs",
    "GET /query/logs/histogram",
    "GET /query/logs/fields",
  ]),
  "large-log-queries": byReader(largeLogQueries, ["GET /query/logs", "GET /query/logs/histogram", "GET /query/logs/fields"]),
  "million-values": byReader(millionValues, [
    "GET /query/logs/patterns",
    "GET /query/logs",
    "GET /query/logs/histogram",
    "GET /query/logs/fields",
  ]),
  "unread-tails": byReader(unreadTails, ["GET /query/logs/tail", "protocol: unread answers"]),
  "sixteen-pipelined": byAnybody(floods.sixteenPipelined, ["GET /openapi.json", "protocol: pipelined requests"]),
  "small-chunks": byAnybody(floods.smallChunks, ["protocol: small chunks"]),
  "chunks-behind-answer": byAnybody(floods.chunksBehindAnswer, ["protocol: small chunks", "protocol: unread answers"]),
  "health-chunks": byAnybody(floods.healthChunks, ["listener: HEALTH_LISTEN"]),
  "compressed-chunks": byToken(floods.compressedChunks(), ["POST /v1/logs", "encoding: gzip", "encoding: zstd"]),
  "small-frames": byReader(floods.smallFrames(), [`${LOKI}/tail`, "protocol: websocket"]),
  "tiny-frames": byToken(http2.tinyFrames, ["protocol: gRPC"]),
  continuations: byAnybody(http2.continuations, ["protocol: gRPC"]),
  "cancelled-calls": byAnybody(http2.cancelledCalls, ["protocol: gRPC"]),
  "window-updates": byAnybody(http2.windowUpdates, ["protocol: gRPC"]),
  "template-reader": byReader(logql.templateReader),
  "template-nest": byReader(logql.templateNest),
  decolorize: byReader(logql.decolorize),
  "unwrap-digits": byReader(logql.unwrapDigits),
  "compare-digits": byReader(logql.compareDigits),
  "many-replacements": byReader(logql.manyReplacements),
  "many-json-paths": byReader(logql.manyJsonPaths),
  "printed-texts": byReader(logql.printedTexts),
  "label-replace": byReader(logql.labelReplace),
  "kept-variables": byReader(logql.keptVariables),
  "every-template-function": byReader(logql.everyTemplateFunction),
  "every-stage": byReader(logql.everyStage),
  "many-series": byReader(logql.manySeries),
  "wide-streams": byReader(
    logql.wideStreams,
    logql.LOKI_LISTS.map((path) => `${LOKI}/${path.replace(/^(label|detected_field)\/\w+/, "$1/{name}")}`),
  ),
  "costly-tail": byReader(logql.costlyTail, [`${LOKI}/tail`, "protocol: websocket"]),
  "hostile-matchers": byAdministrator(
    hostileMatchers,
    ["silences", "routes", "inhibit-rules"].map((list) => `POST /alerting/${list}`),
  ),
  "hostile-templates": byAdministrator(hostileTemplates, ["POST /alerting/channels"]),
};

/** Routes whose specific attack leaves some kinds of parameters or bodies to the general ones. */
const IN_BOTH = [
  "GET /query/logs/tail",
  "GET /query/prometheus/api/v1/series",
  "POST /query/prometheus/api/v1/series",
  ...["channels", "routes", "silences", "inhibit-rules"].map((list) => `POST /alerting/${list}`),
];
const specificRoutes = new Set(Object.values(SPECIFIC).flatMap(({ covers }) => covers));
const otherRoutes = [...[...OPERATIONS.keys()].filter((route) => !specificRoutes.has(route)), ...IN_BOTH];
const READS = otherRoutes.filter((route) => route.startsWith("GET "));
const WRITES = otherRoutes.filter((route) => !route.startsWith("GET "));

export const TABLE: Readonly<Record<string, Row>> = {
  ...SPECIFIC,
  "every-read": byAdministrator(everyRead(READS), READS),
  "every-write": byAdministrator(everyWrite(WRITES), WRITES),
};

export const ATTACKS: Readonly<Record<string, Attack>> = Object.fromEntries(
  Object.entries(TABLE).map(([name, { attack }]) => [name, attack]),
);

const namesIn = (group: Attack["group"]): readonly string[] =>
  Object.entries(ATTACKS)
    .filter(([, attack]) => attack.group === group)
    .map(([name]) => name);

/** One attack of each kind: they run together by default. */
export const FIRST_ATTACKS = namesIn("first");
/** Attacks by a program of the query language, by what rules and notifications evaluate, and on each route alike. */
export const PROGRAM_ATTACKS = [
  ...namesIn("logql"),
  "hostile-matchers",
  "hostile-templates",
  "large-log-queries",
  "every-read",
  "every-write",
];
