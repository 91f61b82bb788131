// The limits of backend/alerting/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in
// its name.

/** @internal Nesting of a rule's expression. */
export const MAX_EXPRESSION_DEPTH = 100;
/** @internal Operators of a rule's expression. */
export const MAX_EXPRESSION_OPERATORS = 500;
/** @internal Samples from which the history of a rule is computed exactly. */
export const MAX_HISTORY_SAMPLES = 100_000;
/** @internal Points of one instance in a history that is thinned out. */
export const MAX_HISTORY_POINTS = 1000;
/** @internal Maximum size of a response from vmalert: several thousand alerts. */
export const MAX_LIVE_ALERTS_BYTES = 4 * 1024 * 1024;
/** @internal Requests for single rules when all alerts together are too large. */
export const MAX_SINGLE_RULE_REQUESTS = 20;
/** @internal Rules in one request by name; its URL stays below the 8 KiB that proxies allow. */
export const MAX_NAMED_RULES = 20;
/** Fields by which a log rule groups records. */
export const MAX_GROUP_FIELDS = 2;
/** Filters of a log rule, and of each count of log records of an objective. */
export const MAX_LOG_RULE_FILTERS = 50;
/** @internal Values of all these filters together. */
export const MAX_LOG_RULE_VALUES = 50;
/** @internal Characters of the name of a label in these filters. */
export const MAX_FIELD_NAME_CHARACTERS = 200;
/** Groups of one log rule, recent ones included. */
export const MAX_GROUPS_PER_RULE = 50;
/** Time of one count of a log rule, without the time for which it waits. */
export const MAX_COUNT_MS = 5000;
/** @internal Slow counts that wait for the engine on their own, so that they do not delay the fast ones. */
export const MAX_SLOW_COUNTS = 16;
/** @internal Counts that wait because the organisation's own queries use the engine. */
export const MAX_WAITING_COUNTS = 1000;
/**
 * Series of an organisation's log rules in the last 30 to 60 minutes, on each replica; they do not count towards its limit of active series.
 */
export const MAX_LOG_RULE_SERIES = 10_000;
/** @internal Groups in one request by name; its URL stays below the 8 KiB that proxies allow. */
export const MAX_NAMED_GROUPS = 20;
/** @internal Characters of vmalert's reason why it refuses a rule. */
export const MAX_REASON_LENGTH = 300;
/** Instances of a rule; a rule with more fails. The limit is lower if the alerts of the organisation's rules are large. */
export const MAX_INSTANCES_PER_RULE = 5000;
/** @internal Estimated memory of all alerts of an organisation in vmalert, which organisations share. */
export const MAX_ALERTS_BYTES_PER_ORG = 256 * 1024 * 1024;
/** @internal Estimated memory of all alerts of one rule, which its status reads. */
export const MAX_ALERTS_BYTES_PER_RULE = 16 * 1024 * 1024;
/** Longest `for` of a rule. */
export const MAX_FOR_MS = 366 * 86_400_000;
/** Text of a rule. */
export const MAX_RULE_BYTES = 16 * 1024;
/** Estimated size of one alert of a rule, with its rendered annotations. */
export const MAX_ALERT_BYTES = 64 * 1024;
/** Characters of an expression of a service level objective. */
export const MAX_SLO_EXPRESSION_CHARACTERS = 1000;
/** Service level objectives of an organisation. */
export const MAX_SLOS_PER_ORG = 100;
/** @internal Objectives that one process counts at the same time. */
export const MAX_RECORDED_SLOS = 4;
/** @internal Time of one count of an objective's events. */
export const MAX_RECORD_MS = 15_000;
/** @internal Minutes that one count includes because records arrived late: the newest. */
export const MAX_LATE_MINUTES = 4320;
/** @internal Connections from vmalert: it opens one or two to read rules, and one for each group that posts alerts. */
export const MAX_RULES_CONNECTIONS = 512;
/** Rules of an organisation, with those of its service level objectives. */
export const MAX_RULES_PER_ORG = 1000;
/** Log rules of an organisation. */
export const MAX_LOG_RULES_PER_ORG = 50;
/** Text of all rules of an organisation. */
export const MAX_RULES_BYTES_PER_ORG = 2 * 1024 * 1024;
