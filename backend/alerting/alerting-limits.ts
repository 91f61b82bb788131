// The limits of backend/alerting/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in
// its name.

// expression.ts
/** Nesting of a rule's expression. */
export const MAX_EXPRESSION_DEPTH = 100;
/** Operators of a rule's expression; rules that people write have a few dozen. */
export const MAX_EXPRESSION_OPERATORS = 500;

// history.ts
/** More samples of an alert's history are thinned out by the engine. */
export const MAX_HISTORY_SAMPLES = 100_000;
/** Points of one instance in a history that is thinned out. */
export const MAX_HISTORY_POINTS = 1000;

// live-rules.ts
/** Maximum size of a response from vmalert: several thousand alerts. */
export const MAX_LIVE_ALERTS_BYTES = 4 * 1024 * 1024;
/** Requests for single rules when all alerts together are too large. */
export const MAX_SINGLE_RULE_REQUESTS = 20;
/** Rules in one request by name; its URL stays below the 8 KiB that proxies allow. */
export const MAX_NAMED_RULES = 20;

// log-condition.ts
/** Fields by which a log rule groups records. */
export const MAX_GROUP_FIELDS = 2;
/** Filters of a log rule, and of each count of log records of an objective. */
export const MAX_LOG_RULE_FILTERS = 50;
/** Values of all these filters: each is a condition of the statement, of which the engine reads 256 KiB. */
export const MAX_LOG_RULE_VALUES = 50;
/** Characters of the name of a label in these filters. */
export const MAX_FIELD_NAME_CHARACTERS = 200;
/** Groups of one log rule, recent ones included: each is a series. */
export const MAX_GROUPS_PER_RULE = 50;

// log-count.ts
/** Time of one count of a log rule. */
export const MAX_COUNT_MS = 5000;

// log-counter.ts
/** Slow counts that wait for the engine on their own, so that they do not delay the fast ones. */
export const MAX_SLOW_COUNTS = 16;
/** Counts that wait because the organisation's own queries use the engine. */
export const MAX_WAITING_COUNTS = 1000;
/** Series of an organisation's log rules within an hour, four times what fifty rules have at once; separate from its limit of active series. */
export const MAX_LOG_RULE_SERIES = 10_000;

// reconciler.ts
/** Groups in one request by name; its URL stays below the 8 KiB that proxies allow. */
export const MAX_NAMED_GROUPS = 20;

// rule-check.ts
/** Characters of vmalert's reason why it refuses a rule. */
export const MAX_REASON_LENGTH = 300;

// rule-groups.ts
/** A rule with more instances fails; the limit is lower if large alerts would exceed the limits of bytes below. */
export const MAX_INSTANCES_PER_RULE = 5000;
/** Estimated memory of all alerts of an organisation in vmalert, which organisations share. */
export const MAX_ALERTS_BYTES_PER_ORG = 256 * 1024 * 1024;
/** Estimated memory of all alerts of one rule, which its status reads. */
export const MAX_ALERTS_BYTES_PER_RULE = 16 * 1024 * 1024;

// alert-rule.ts
/** Longest `for` of a rule. */
export const MAX_FOR_MS = 366 * 86_400_000;
/** Text of a rule: vmalert reads all its rules whenever one changes. */
export const MAX_RULE_BYTES = 16 * 1024;
/** One alert in vmalert, which keeps one per matching series. */
export const MAX_ALERT_BYTES = 64 * 1024;

// slo.ts
/** Characters of an expression of an objective: vmalert evaluates it for seven windows. */
export const MAX_SLO_EXPRESSION_CHARACTERS = 1000;

// slo-table.ts
/** Objectives of an organisation; each with alerts has four rules, which count as rules of the organisation. */
export const MAX_SLOS_PER_ORG = 100;

// slo-recorder.ts
/** Objectives that one process counts at the same time. */
export const MAX_RECORDED_SLOS = 4;
/** Time of one count of an objective's events. */
export const MAX_RECORD_MS = 15_000;
/** Minutes that one count includes because records arrived late: the newest. */
export const MAX_LATE_MINUTES = 4320;

// rules-listener.ts
/** Connections from vmalert: it opens one or two to read rules, and one for each group that posts alerts. */
export const MAX_RULES_CONNECTIONS = 512;

// alert-rule-table.ts
/** Rules of an organisation. */
export const MAX_RULES_PER_ORG = 1000;
/** Log rules of an organisation; the backend counts the records of each several times per window. */
export const MAX_LOG_RULES_PER_ORG = 50;
/** Text of all rules of an organisation. */
export const MAX_RULES_BYTES_PER_ORG = 2 * 1024 * 1024;
