// The limits of backend/notification/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is
// in its name.

/** Approximate size of a response with active alerts; further alerts are left out. */
export const MAX_ACTIVE_ALERTS_BYTES = 4 * 1024 * 1024;
/** Characters of a channel's URL. */
export const MAX_CHANNEL_URL_LENGTH = 2000;
/** Recipients of an e-mail channel. */
export const MAX_RECIPIENTS = 20;
/** Channels of an organisation. */
export const MAX_CHANNELS_PER_ORG = 100;
/** Characters of an e-mail's subject. */
export const MAX_EMAIL_SUBJECT_LENGTH = 200;
/** @internal Response of the mail server. */
export const MAX_SMTP_RESPONSE_BYTES = 64 * 1024;
/** Characters of the template of a title. */
export const MAX_TITLE_TEMPLATE_LENGTH = 500;
/** Characters of the template of a text. */
export const MAX_TEXT_TEMPLATE_LENGTH = 4000;
/** Characters of a text that a template writes; some kinds of channels accept fewer. */
export const MAX_MESSAGE_TEXT_LENGTH = 8000;
/** Placeholders of a template. */
export const MAX_TEMPLATE_PLACEHOLDERS = 100;
/** Characters of a value in a rendered template, except `url` and `changes_url`. */
export const MAX_TEMPLATE_VALUE_LENGTH = 300;
/** Characters of an alert's summary, of its description, and of its list of labels in the default text of a message. */
export const MAX_MESSAGE_VALUE_LENGTH = 300;
/** Characters of a text in Microsoft Teams. */
export const MAX_TEAMS_TEXT_LENGTH = 5000;
/** Characters of a title in Microsoft Teams. */
export const MAX_TEAMS_TITLE_LENGTH = 200;
/** Characters of a message in Opsgenie. */
export const MAX_OPSGENIE_MESSAGE_LENGTH = 130;
/** Characters of a description in Opsgenie. */
export const MAX_OPSGENIE_DESCRIPTION_LENGTH = 15_000;
/** Characters of all details in Opsgenie. */
export const MAX_OPSGENIE_DETAILS_LENGTH = 8000;
/** Characters of a source in Opsgenie. */
export const MAX_OPSGENIE_SOURCE_LENGTH = 100;
/** @internal Characters of a deduplication key; PagerDuty's own limit. */
export const MAX_DEDUP_KEY_LENGTH = 255;
/** Characters of a summary in PagerDuty. */
export const MAX_SUMMARY_LENGTH = 1024;
/** Characters of a text in Slack. */
export const MAX_SLACK_TEXT_LENGTH = 2800;
/** Characters of a title in Slack. */
export const MAX_SLACK_TITLE_LENGTH = 200;
/** Attempts to send a message of an organisation in a minute; further ones wait. */
export const MAX_MESSAGES_PER_MINUTE = 60;
/** @internal Channels with waiting messages that one pass reads. */
export const MAX_DELIVERY_CANDIDATES = 1000;
/** @internal Failing channels that are remembered. */
export const MAX_FAILING_CHANNELS = 10_000;
/** @internal Characters of a receiver's error that are kept for people. */
export const MAX_ERROR_LENGTH = 500;
/** Approximate number of deliveries of an organisation that are kept: the newest. */
export const MAX_DELIVERIES_PER_ORG = 10_000;
/** @internal Rules in one request by id; if there are more, all of the organisation are requested. */
export const MAX_NAMED_GROUPS = 50;
/** @internal Size of a request with alerts from vmalert. */
export const MAX_POSTED_ALERTS_BYTES = 32 * 1024 * 1024;
/** @internal Requests with alerts that wait to be stored. */
export const MAX_WAITING_POSTS = 1000;
/** @internal Connections from the embedded vmalert. */
export const MAX_INTAKE_CONNECTIONS = 512;
/** Alerts of an organisation that are stored. */
export const MAX_ALERTS_PER_ORG = 10_000;
/** Text of all stored alerts of an organisation. */
export const MAX_ALERT_BYTES_PER_ORG = 16 * 1024 * 1024;
/** @internal Time for which an alert counts as firing without another report; then, the next evaluation without it ends it. */
export const MAX_ALERT_LIFE_MS = 24 * 3600_000;
/** @internal Text of one alert. */
export const MAX_ALERT_BYTES = 256 * 1024;
/** Labels of one alert; further ones are left out. */
export const MAX_ALERT_LABELS = 64;
/** Characters of a label's value; longer ones are cut. */
export const MAX_ALERT_LABEL_LENGTH = 1024;
/** Annotations of one alert; further ones are left out. */
export const MAX_ALERT_ANNOTATIONS = 32;
/** Characters of an annotation; longer ones are cut. */
export const MAX_ALERT_ANNOTATION_LENGTH = 2048;
/** Matchers of a route or a silence, and of each side of an inhibition rule. */
export const MAX_MATCHERS = 20;
/** Characters of a matcher's value; no regular expression matches a longer label. */
export const MAX_MATCHER_LENGTH = 1000;
/**
 * Complexity of a matcher's regular expression: parts that match several characters, repetitions and alternatives count. A list of values
 * has none.
 */
export const MAX_EXPRESSION_STEPS = 12;
/**
 * Characters, classes and groups of all regular expressions of a list of matchers, each as often as it is repeated; a list of values has
 * none.
 */
export const MAX_EXPRESSION_PARTS = 2000;
/** Alerts that one message lists. */
export const MAX_ALERTS_PER_MESSAGE = 100;
/** JSON of the alerts that one message lists; the first one is always listed. */
export const MAX_MESSAGE_BYTES = 64 * 1024;
/** Regular expressions in routes, inhibition rules and silences that have not ended, except lists of values. */
export const MAX_EXPRESSIONS_PER_ORG = 100;
/** @internal Organisations that one pass reads. */
export const MAX_PASS_CANDIDATES = 1000;
/** Alert groups of an organisation. */
export const MAX_GROUPS_PER_ORG = 10_000;
/** Alerts of an organisation in all its alert groups, each counted once per group. */
export const MAX_GROUP_MEMBERS_PER_ORG = 200_000;
/** Messages of one channel that wait to be sent, in all replicas together. */
export const MAX_PENDING_PER_CHANNEL = 200;
/** @internal Messages that one pass composes; more follow in the next. */
export const MAX_MESSAGES_PER_PASS = 100;
/** Routes of an organisation, without the default route. */
export const MAX_ROUTES = 100;
/** Channels of one route. */
export const MAX_CHANNELS_PER_ROUTE = 20;
/** Labels by which a route groups alerts, and `equal` labels of an inhibition rule. */
export const MAX_GROUP_LABELS = 20;
/** Text of one route. */
export const MAX_ROUTE_BYTES = 8 * 1024;
/** Inhibition rules of an organisation. */
export const MAX_INHIBIT_RULES = 50;
/** Time intervals of an organisation. */
export const MAX_TIME_INTERVALS = 50;
/** Text of an inhibition rule or a time interval. */
export const MAX_SETTING_BYTES = 8 * 1024;
/** Ranges of a field of a time interval, and entries of each list of time intervals. */
export const MAX_TIME_RANGES = 20;
/** Matchers and comment of one silence. */
export const MAX_SILENCE_BYTES = 4096;
/** A silence ends at most so long after it was created or changed. */
export const MAX_SILENCE_MS = 366 * 86_400_000;
/** Silences of an organisation that have not ended. */
export const MAX_SILENCES_PER_ORG = 500;
