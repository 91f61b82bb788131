// The limits of backend/tenants/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in its
// name.

/** Lifetime of a read token. */
export const MAX_READ_TOKEN_TTL_MS = 365 * 86_400_000;
/** Lifetime of an invitation. */
export const MAX_INVITATION_TTL_MS = 30 * 86_400_000;
/** Valid invitations of an organisation. */
export const MAX_INVITATIONS_PER_ORG = 200;
/** Lifetime of an install token. */
export const MAX_INSTALL_TOKEN_TTL_MS = 365 * 86_400_000;
/** Nodes of a cluster. */
export const MAX_NODES = 5000;
/** @internal Heartbeats of one statement. */
export const MAX_BATCHED_HEARTBEATS = 200;
/** @internal Heartbeats of one organisation's nodes that wait to be written, and of its hosts; further ones are refused. */
export const MAX_WAITING_HEARTBEATS = 2000;
/** Longest heartbeat interval of an agent; a longer one counts as this. */
export const MAX_HEARTBEAT_INTERVAL_S = 3600;
/** @internal Characters of the collector's last error in a heartbeat; a longer one is cut. */
export const MAX_HEARTBEAT_TEXT_LENGTH = 1000;
/** @internal Characters of the name of an installation, `<namespace>/<Secret>`. */
export const MAX_INSTALLATION_LENGTH = 400;
/** @internal Body of a heartbeat. */
export const MAX_HEARTBEAT_BYTES = 64 * 1024;
/** @internal Keys of one statement that records first uses, which takes about 10 ms. */
export const MAX_FIRST_USES = 1000;
/** Dashboards of an organisation. */
export const MAX_DASHBOARDS = 200;
/** Saved views of an organisation. */
export const MAX_VIEWS = 1000;
/** Panels of a dashboard. */
export const MAX_DASHBOARD_PANELS = 100;
/** Variables of a dashboard. */
export const MAX_DASHBOARD_VARIABLES = 20;
/** @internal Values that a variable of a dashboard lists. */
export const MAX_VARIABLE_VALUES = 200;
/** @internal Queries of a panel. */
export const MAX_PANEL_QUERIES = 10;
/** @internal Characters of a query in a dashboard. */
export const MAX_SAVED_QUERY_LENGTH = 4000;
/** @internal Characters of a text panel. */
export const MAX_PANEL_TEXT_LENGTH = 10_000;
/** @internal Thresholds of a panel. */
export const MAX_PANEL_THRESHOLDS = 10;
/** @internal Characters of the address of a saved view. */
export const MAX_ADDRESS_LENGTH = 4000;
/** Days that an operator may keep the telemetry of an organisation. */
export const MAX_RETENTION_DAYS = 3650;
/** Rules of an organisation that set a shorter retention for some of its log records. */
export const MAX_LOG_RULES = 20;
