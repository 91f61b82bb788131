// Every attack by its name. Invariant: `FIRST_ATTACKS` are one of each kind, which run together by default.
import { inventedNodes, nobodysPasswords } from "./accounts.ts";
import type { Attack } from "./attack.ts";
import { amplified, denseJson } from "./bodies.ts";
import { unauthenticated } from "./connections.ts";
import { millionValues, unreadTails, wholeRetentionRegex } from "./expensive.ts";
import { heartbeatFlood, mintedCredentials, ruleChurn } from "./more-accounts.ts";
import { bombs, deepAndWide, drippingBodies, largestBodies, logFlood, newSeries, wideDays } from "./more-bodies.ts";
import { allConnections, loginFlood, pipelined, silentConnections } from "./more-connections.ts";
import { costlyExpressions, costlyRules, longHistories, wideLabels } from "./more-queries.ts";
import { costlyPromql, largeAnswers, slowLogQueries } from "./queries.ts";
import { abandonedDrafts, hugeRules, longExpressions } from "./rules.ts";

export const ATTACKS: Readonly<Record<string, Attack>> = {
  "amplified-resource": amplified,
  "unauthenticated-bodies": unauthenticated,
  "large-answers": largeAnswers,
  "slow-log-queries": slowLogQueries,
  "costly-promql": costlyPromql,
  "long-expressions": longExpressions,
  "dense-json": denseJson,
  "huge-rules": hugeRules,
  "abandoned-drafts": abandonedDrafts,
  "nobodys-passwords": nobodysPasswords,
  "invented-nodes": inventedNodes,
  "largest-bodies": largestBodies,
  "log-flood": logFlood,
  "wide-days": wideDays,
  "new-series": newSeries,
  "deep-and-wide": deepAndWide,
  bombs,
  "dripping-bodies": drippingBodies,
  "silent-connections": silentConnections,
  pipelined,
  "login-flood": loginFlood,
  "all-connections": allConnections,
  "wide-labels": wideLabels,
  "costly-expressions": costlyExpressions,
  "costly-rules": costlyRules,
  "long-histories": longHistories,
  "minted-credentials": mintedCredentials,
  "heartbeat-flood": heartbeatFlood,
  "rule-churn": ruleChurn,
  "whole-retention-regex": wholeRetentionRegex,
  "million-values": millionValues,
  "unread-tails": unreadTails,
};

export const FIRST_ATTACKS: readonly string[] = Object.entries(ATTACKS)
  .filter(([, { group }]) => group === "first")
  .map(([name]) => name);
