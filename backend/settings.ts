// The manual: every setting of the backend, read from the environment. X_FILE reads X from a file. All problems are reported in one
// message, each naming its variable; the process then exits with 2. Nothing else in backend/ reads the environment. One
// file, because it is the manual.
//
//   API_LISTEN              127.0.0.1:8080   ingest, query, login, administration
//   ALERTING_LISTEN         127.0.0.1:8082   alert rules
//   HEALTH_LISTEN           127.0.0.1:9090   /healthz, /readyz, /metrics (no authentication: keep it inside)
//   TLS_CERT_FILE, TLS_KEY_FILE              serve API and alerting over TLS; read again when they change
//   TRUSTED_PROXIES                          comma-separated addresses or CIDRs whose X-Forwarded-For is believed
//   MAX_CONNECTIONS         8192             of each of API and alerting; above it idle ones and those without a credential make room
//   CONSOLE                 true             the console, at / of the API listener; false: it is not served
//   DATA_DIR                ./data           everything of the embedded engines
//   DATABASE_URL                             PostgreSQL; unset: embedded
//   CLICKHOUSE_URL                           ClickHouse over HTTP; unset: embedded
//   CLICKHOUSE_CLUSTER                       cluster name: tables become Replicated, ON CLUSTER
//   METRICS_WRITE_URL, METRICS_QUERY_URL     VictoriaMetrics; both or neither; unset: embedded
//   VICTORIA_METRICS_PATH, VMALERT_PATH      programs; else PATH, else the tool cache of hack/fetch-tools.ts
//   EVALUATOR_QUERY_URL                      vmalert; default the embedded one, with external engines http://localhost:8880
//   EVALUATOR_LISTEN        127.0.0.1:8880   where the embedded vmalert listens
//   EVALUATION_INTERVAL     15s              how often each rule is evaluated; windows of rules over logs are at least twice as long
//   EVALUATION_DELAY        0s               how far behind now rules look; some seconds where samples arrive late
//   RULES_LISTEN                             internal listener that offers the rules to an external vmalert, e.g. 0.0.0.0:8083
//   RULES_PASSWORD                           Basic-auth password for reading rules there (user "vmalert"); required with RULES_LISTEN; vmalert logs it
//   ALERTS_PASSWORD                          Basic-auth password for posting alerts there (user "vmalert"); unset: alerts are not accepted there
//   ALERTMANAGER_URL                         where the embedded vmalert sends alerts too; unset: nowhere else
//   ALERTING_URL                             where the API forwards /alerting/; default this process's alerting listener
//   MASTER_KEY, MASTER_PREVIOUS_KEY          32 bytes, base64: encrypts API keys at rest; previous: still decrypts
//   JWT_SECRET, JWT_PREVIOUS_SECRET          at least 32 bytes: signs sessions and read tokens; previous: still verifies
//   JWT_TTL                 15m              how long a session lasts
//   OIDC_ISSUER                              an identity provider by which people log in, https://…; unset: no single sign-on
//   OIDC_CLIENT_ID, OIDC_CLIENT_SECRET       what it knows this backend as; the secret may be unset for a public client
//   OIDC_SCOPES             openid email     what is asked for, apart by blanks; add the scope that brings groups
//   OIDC_GROUPS_CLAIM       groups           the claim that names a user's groups
//   OIDC_GROUPS                              JSON, group → organisation and role: {"platform": {"org": "default", "role": "admin"}}
//   OIDC_ALLOW_UNVERIFIED_EMAIL  false       true: users get a free e-mail address also if the provider sends no email_verified
//   PASSWORD_LOGIN          true             false: passwords are for the operator of the first start alone; needs OIDC_ISSUER
//   HTTPS_PROXY, HTTP_PROXY, NO_PROXY        the way to OIDC_ISSUER and to channels, upper or lower case: http(s)://[user:password@]host:port
//   PUBLIC_URL                               where people reach this backend, https://…: links of notifications lead there; unset: no links
//   NOTIFY_ALLOWED_NETWORKS                  comma-separated addresses or CIDRs, internal ones too, to which every organisation may send its
//                                            notifications; unset: to the internet alone. Always https, never where a redirect leads
//   NOTIFY_CA_FILE                           PEM of authorities by which receivers and the mail server are trusted, beside the well-known ones
//   SMTP_URL                                 the mail server of notifications, smtp(s)://[user:password@]host[:port]; unset: no e-mail
//   SMTP_FROM                                the sender's address; required with SMTP_URL
//   SMTP_ALLOWED_DOMAINS                     comma-separated domains that e-mail may go to, beside users of the organisation itself
//   LOGS_RETENTION_DAYS, TRACES_RETENTION_DAYS   30   whole days, of the record's own time
//   METRICS_RETENTION       30d              as VictoriaMetrics takes it: h, d, w, y
//   METRICS_JOURNAL_FSYNC   always           embedded metrics: always: on the disk before 204, one fsync for all that wait; never: a power
//                                            cut takes some 30 seconds along, and 204 comes one fsync earlier
//   BACKUP_EVERY                             how often the backend backs up its DATA_DIR while it runs, such as 6h or 1d; unset: never
//   BACKUP_FOLDER                            where to, a folder of this installation alone, on another disk; required with BACKUP_EVERY
//   BACKUP_KEEP             7                how many of them are kept; while one is made, there is one more
//   QUOTA_BYTES_PER_SECOND, QUOTA_RECORDS_PER_SECOND   0   per organisation and replica; 0: unlimited; bytes: as
//                                            decompressed or as stored, whichever is more; refused bodies count
//   QUOTA_ACTIVE_SERIES     0                series of an organisation with a sample within the last half hour to hour, as a replica
//                                            sees them, within some 2 %; 0: unlimited
//   INGEST_MEMORY_MIB       512              bodies held at once, compressed and decompressed; above it: 503
//                                            (the rows that they become have 256 MiB of their own, one organisation half of it)
//   ADMIN_EMAIL             admin@localhost  the first user, at the first start
//   ADMIN_PASSWORD                           that user's password; unset, all embedded: made and kept in DATA_DIR/secrets
//   UV_THREADPOOL_SIZE      4                read by Node itself at its start: statements of the embedded ClickHouse that run at once; 16 is good
//   LOG_LEVEL               info             debug | info | warn | error
import { isIP } from "node:net";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { durationMs } from "../common/duration.ts";
import { isLoopback } from "../common/host-name.ts";
import { maskSecrets } from "../common/mask.ts";
import { isEncoded, type ListenAddress, SettingsReader } from "../common/settings-reader.ts";

export { type ListenAddress, SettingsError } from "../common/settings-reader.ts";

/** What one process does of the whole: `--roles`. */
export const ROLES = ["api", "alerting"] as const;
export type Role = (typeof ROLES)[number];

/** How long the metrics engine keeps samples. */
export interface Retention {
  /** As VictoriaMetrics takes it, e.g. `30d`. */
  readonly text: string;
  readonly ms: number;
}

/** An identity provider, and whom of its users it lets in. */
export interface OidcSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly scopes: string;
  readonly groupsClaim: string;
  readonly grants: readonly GroupGrant[];
  readonly allowsUnverifiedEmail: boolean;
}

/** Whoever is in `group` belongs to the organisation of this name. */
export interface GroupGrant {
  readonly group: string;
  readonly org: string;
  readonly role: "viewer" | "admin" | "operator";
}

/** Configuration that may be logged. */
export interface Settings {
  readonly api: ListenAddress;
  readonly alerting: ListenAddress;
  readonly health: ListenAddress;
  readonly tls: { certFile: string; keyFile: string } | undefined;
  readonly trustedProxies: readonly string[];
  /** Of each listener. */
  readonly maxConnections: number;
  readonly isConsoleServed: boolean;
  readonly dataDir: string;
  readonly clickhouseCluster: string | undefined;
  readonly metricsWriteUrl: string | undefined;
  readonly metricsQueryUrl: string | undefined;
  /** Candidates in order of preference; a bare name is looked up on PATH. */
  readonly victoriaMetricsPath: readonly string[];
  readonly vmalertPath: readonly string[];
  readonly evaluatorQueryUrl: string | undefined;
  readonly evaluatorListen: ListenAddress;
  readonly evaluationIntervalMs: number;
  readonly evaluationDelayMs: number;
  readonly rulesListen: ListenAddress | undefined;
  readonly alertmanagerUrl: string | undefined;
  readonly alertingUrl: string | undefined;
  readonly jwtTtlMs: number;
  readonly oidc: OidcSettings | undefined;
  readonly isPasswordLogin: boolean;
  readonly noProxy: string | undefined;
  /** Where people reach the backend. */
  readonly publicUrl: string | undefined;
  /** Addresses and CIDRs. */
  readonly notifyAllowedNetworks: readonly string[];
  readonly notifyCaFile: string | undefined;
  readonly smtpFrom: string | undefined;
  /** In lower case. */
  readonly smtpAllowedDomains: readonly string[];
  readonly logsRetentionDays: number;
  readonly tracesRetentionDays: number;
  readonly metricsRetention: Retention;
  readonly isMetricsJournalSynced: boolean;
  /** Of DATA_DIR, while it runs. */
  readonly backups: { readonly folder: string; readonly everyMs: number; readonly keep: number } | undefined;
  readonly quotaBytesPerSecond: number;
  readonly quotaRecordsPerSecond: number;
  readonly quotaActiveSeries: number;
  readonly ingestMemoryBytes: number;
  /** Size of libuv's pool, where the embedded ClickHouse runs. */
  readonly threadPoolSize: number;
  readonly adminEmail: string;
  readonly logLevel: string;
}

/** Configuration that must never be logged; URLs are here because they may hold passwords. */
export interface Secrets {
  readonly databaseUrl: string | undefined;
  readonly clickhouseUrl: string | undefined;
  readonly masterKey: Buffer | undefined;
  readonly masterPreviousKey: Buffer | undefined;
  readonly jwtSecret: Buffer | undefined;
  readonly jwtPreviousSecret: Buffer | undefined;
  readonly adminPassword: string | undefined;
  readonly rulesPassword: string | undefined;
  readonly alertsPassword: string | undefined;
  readonly oidcClientSecret: string | undefined;
  readonly httpsProxy: string | undefined;
  readonly httpProxy: string | undefined;
  readonly smtpUrl: string | undefined;
}

/** The pinned versions whose builds the tool cache holds; the same as in hack/fetch-tools.ts. */
const VICTORIA_METRICS_VERSION = "1.150.0";

/** Reads and validates everything. Throws one SettingsError that lists all problems. */
export function readSettings(env: NodeJS.ProcessEnv = process.env): { settings: Settings; secrets: Secrets } {
  const read = new Reader(env);
  const settings = readPlain(read);
  const secrets = readSecrets(read);
  checkTogether(read, settings, secrets);
  read.finish();
  return { settings, secrets };
}

/** What a move of the accounts reads: both places, and nothing of the rest, which belongs to a running backend. */
export function readAccountPlaces(env: NodeJS.ProcessEnv = process.env): { dataDir: string; databaseUrl: string } {
  const read = new Reader(env);
  const databaseUrl = read.url("DATABASE_URL", ["postgres", "postgresql"]);
  if (databaseUrl === undefined) read.problem("DATABASE_URL: set it, or DATABASE_URL_FILE, to the URL of PostgreSQL, postgres://…");
  const dataDir = dataDirOf(read);
  read.finish();
  return { dataDir, databaseUrl: databaseUrl ?? "" };
}

function dataDirOf(read: Reader): string {
  return resolve(read.text("DATA_DIR") ?? "./data");
}

/** The settings for a log line: the addresses of engines may hold passwords, which are masked. */
export function loggable(settings: Settings): unknown {
  return JSON.parse(JSON.stringify(settings, (_name, value: unknown) => (typeof value === "string" ? maskSecrets(value) : value)));
}

function readPlain(read: Reader): Settings {
  const tlsCert = read.readableFile("TLS_CERT_FILE");
  const tlsKey = read.readableFile("TLS_KEY_FILE");
  if ((tlsCert === undefined) !== (tlsKey === undefined)) read.problem("TLS_CERT_FILE and TLS_KEY_FILE go together");
  return {
    api: read.listen("API_LISTEN", "127.0.0.1:8080"),
    alerting: read.listen("ALERTING_LISTEN", "127.0.0.1:8082"),
    health: read.listen("HEALTH_LISTEN", "127.0.0.1:9090"),
    tls: tlsCert && tlsKey ? { certFile: tlsCert, keyFile: tlsKey } : undefined,
    trustedProxies: read.addresses("TRUSTED_PROXIES"),
    maxConnections: read.integer("MAX_CONNECTIONS", 8192, 64),
    isConsoleServed: read.oneOf("CONSOLE", ["true", "false"]) === "true",
    dataDir: dataDirOf(read),
    clickhouseCluster: read.text("CLICKHOUSE_CLUSTER"),
    metricsWriteUrl: read.url("METRICS_WRITE_URL"),
    metricsQueryUrl: read.url("METRICS_QUERY_URL"),
    victoriaMetricsPath: read.program("VICTORIA_METRICS_PATH", "victoria-metrics"),
    vmalertPath: read.program("VMALERT_PATH", "vmalert"),
    evaluatorQueryUrl: read.url("EVALUATOR_QUERY_URL"),
    evaluatorListen: read.listen("EVALUATOR_LISTEN", "127.0.0.1:8880"),
    evaluationIntervalMs: read.duration("EVALUATION_INTERVAL", "15s", 1000),
    evaluationDelayMs: read.duration("EVALUATION_DELAY", "0s", 0),
    rulesListen: read.text("RULES_LISTEN") === undefined ? undefined : read.listen("RULES_LISTEN", ""),
    alertmanagerUrl: read.url("ALERTMANAGER_URL"),
    alertingUrl: read.url("ALERTING_URL"),
    jwtTtlMs: read.duration("JWT_TTL", "15m", 1000),
    oidc: oidcOf(read),
    isPasswordLogin: read.oneOf("PASSWORD_LOGIN", ["true", "false"]) === "true",
    noProxy: read.eitherCase("NO_PROXY"),
    publicUrl: read.publicUrl("PUBLIC_URL"),
    notifyAllowedNetworks: read.networks("NOTIFY_ALLOWED_NETWORKS"),
    notifyCaFile: read.readableFile("NOTIFY_CA_FILE"),
    smtpFrom: read.emailAddress("SMTP_FROM"),
    smtpAllowedDomains: read.domains("SMTP_ALLOWED_DOMAINS"),
    logsRetentionDays: read.integer("LOGS_RETENTION_DAYS", 30, 1),
    tracesRetentionDays: read.integer("TRACES_RETENTION_DAYS", 30, 1),
    metricsRetention: read.retention("METRICS_RETENTION", "30d"),
    isMetricsJournalSynced: read.oneOf("METRICS_JOURNAL_FSYNC", ["always", "never"]) === "always",
    backups: backupsOf(read),
    quotaBytesPerSecond: read.integer("QUOTA_BYTES_PER_SECOND", 0, 0),
    quotaRecordsPerSecond: read.integer("QUOTA_RECORDS_PER_SECOND", 0, 0),
    quotaActiveSeries: read.integer("QUOTA_ACTIVE_SERIES", 0, 0),
    ingestMemoryBytes: read.integer("INGEST_MEMORY_MIB", 512, 64) * 1024 * 1024,
    threadPoolSize: read.integer("UV_THREADPOOL_SIZE", 4, 1),
    adminEmail: read.text("ADMIN_EMAIL") ?? "admin@localhost",
    logLevel: read.oneOf("LOG_LEVEL", ["info", "debug", "warn", "error"]),
  };
}

function backupsOf(read: Reader): Settings["backups"] {
  const [every, folder] = [read.text("BACKUP_EVERY"), read.text("BACKUP_FOLDER")];
  const keep = read.integer("BACKUP_KEEP", 7, 1);
  if (every === undefined && folder === undefined) return undefined;
  if (every === undefined || folder === undefined) {
    read.problem("BACKUP_EVERY and BACKUP_FOLDER go together");
    return undefined;
  }
  const place = resolve(folder);
  if (`${place}/`.startsWith(`${dataDirOf(read)}/`))
    read.problem("BACKUP_FOLDER: is inside DATA_DIR: name a folder elsewhere, on another disk");
  return { folder: place, everyMs: read.duration("BACKUP_EVERY", "1d", 60_000), keep };
}

function oidcOf(read: Reader): OidcSettings | undefined {
  const issuer = read.issuer("OIDC_ISSUER");
  const scopes = read.text("OIDC_SCOPES") ?? "openid email";
  const grants = read.grants("OIDC_GROUPS");
  const allowsUnverifiedEmail = read.flag("OIDC_ALLOW_UNVERIFIED_EMAIL");
  if (issuer === undefined) return undefined;
  if (!scopes.split(" ").includes("openid")) read.problem("OIDC_SCOPES: openid must be one of them");
  if (grants.length === 0) read.problem("OIDC_GROUPS is required with OIDC_ISSUER: without a group nobody is let in");
  const groupsClaim = read.text("OIDC_GROUPS_CLAIM") ?? "groups";
  return { issuer, clientId: read.required("OIDC_CLIENT_ID"), scopes, groupsClaim, grants, allowsUnverifiedEmail };
}

function readSecrets(read: Reader): Secrets {
  return {
    databaseUrl: read.url("DATABASE_URL", ["postgres", "postgresql"]),
    clickhouseUrl: read.url("CLICKHOUSE_URL"),
    masterKey: read.base64("MASTER_KEY", 32),
    masterPreviousKey: read.base64("MASTER_PREVIOUS_KEY", 32),
    jwtSecret: read.secret("JWT_SECRET", 32),
    jwtPreviousSecret: read.secret("JWT_PREVIOUS_SECRET", 32),
    adminPassword: read.text("ADMIN_PASSWORD"),
    rulesPassword: read.text("RULES_PASSWORD"),
    alertsPassword: read.text("ALERTS_PASSWORD"),
    oidcClientSecret: read.text("OIDC_CLIENT_SECRET"),
    httpsProxy: read.proxyUrl("HTTPS_PROXY"),
    httpProxy: read.proxyUrl("HTTP_PROXY"),
    smtpUrl: read.smtpUrl("SMTP_URL"),
  };
}

function checkTogether(read: Reader, settings: Settings, secrets: Secrets): void {
  if ((settings.metricsWriteUrl === undefined) !== (settings.metricsQueryUrl === undefined)) {
    read.problem("METRICS_WRITE_URL and METRICS_QUERY_URL go together");
  }
  if (settings.clickhouseCluster && !secrets.clickhouseUrl)
    read.problem("CLICKHOUSE_CLUSTER needs CLICKHOUSE_URL: the embedded engine has no cluster");
  if (!settings.isPasswordLogin && !settings.oidc) read.problem("PASSWORD_LOGIN: false needs OIDC_ISSUER: nobody else could log in");
  if ((secrets.smtpUrl === undefined) !== (settings.smtpFrom === undefined)) read.problem("SMTP_URL and SMTP_FROM go together");
  if (settings.rulesListen && !secrets.rulesPassword) read.problem("RULES_PASSWORD is required with RULES_LISTEN");
  if (secrets.alertsPassword !== undefined && secrets.alertsPassword === secrets.rulesPassword)
    read.problem("ALERTS_PASSWORD must differ from RULES_PASSWORD, which vmalert writes to its log");
  if (settings.backups && settings.metricsWriteUrl && secrets.databaseUrl && secrets.clickhouseUrl)
    read.problem("BACKUP_EVERY: every engine is outside, where it is backed up too (docs/backup.md)");
  if (!hasExternalEngine(settings, secrets)) return;
  if (!secrets.masterKey) read.problem("MASTER_KEY is required with an external engine: make one with `openssl rand -base64 32`");
  if (!secrets.jwtSecret) read.problem("JWT_SECRET is required with an external engine: make one with `openssl rand -base64 48`");
}

/** True when any engine is outside this process: secrets then come from settings instead of DATA_DIR/secrets. */
export function hasExternalEngine(settings: Settings, secrets: Secrets): boolean {
  return [settings.metricsWriteUrl, secrets.databaseUrl, secrets.clickhouseUrl].some((url) => url !== undefined);
}

/** The kinds that only the backend has. */
class Reader extends SettingsReader {
  /** Without a host: all IPv4 addresses. */
  override listen(name: string, fallback: string): ListenAddress {
    const { host, port } = super.listen(name, fallback);
    return { host: host || "0.0.0.0", port };
  }

  /** `localhost:8428` is a URL as well, of the scheme "localhost": the schemes tell what is meant. */
  url(name: string, schemes: readonly string[] = ["http", "https"]): string | undefined {
    const text = this.text(name);
    const scheme = URL.parse(text ?? "")?.protocol.slice(0, -1) ?? "";
    if (text !== undefined && !schemes.includes(scheme))
      this.problem(`${name}: must be a URL that begins with ${schemes.join(":// or ")}://`);
    return text;
  }

  /** An issuer is compared letter by letter: it is kept as written. */
  issuer(name: string): string | undefined {
    const text = this.url(name);
    const url = URL.parse(text ?? "");
    if (url?.protocol === "http:" && !isLoopback(url.hostname))
      this.problem(`${name}: must be https: over http anybody on the way can log in`);
    if (url && (url.username || url.password || url.search || url.hash)) this.problem(`${name}: scheme, host and path only`);
    return text;
  }

  /** A map from groups to organisation and role, as JSON. */
  grants(name: string): GroupGrant[] {
    const text = this.text(name);
    if (text === undefined) return [];
    const form = `${name}: must be JSON such as {"platform": {"org": "default", "role": "viewer"}}; role: viewer, admin or operator`;
    try {
      const map = JSON.parse(text) as Record<string, Omit<GroupGrant, "group">>;
      const grants = Object.entries(map).map(([group, { org, role }]) => ({ group, org, role }));
      const isGood = ({ org, role }: GroupGrant) => typeof org === "string" && org !== "" && ["viewer", "admin", "operator"].includes(role);
      if (Array.isArray(map) || !grants.every(isGood)) this.problem(form);
      return grants;
    } catch {
      this.problem(form);
      return [];
    }
  }

  /** IP addresses or CIDRs, or the names of ranges that fastify knows. */
  addresses(name: string): string[] {
    const items = this.list(name);
    for (const item of items) {
      const [address = "", bits, ...rest] = item.split("/");
      const mostBits = isIP(address) === 6 ? 128 : 32;
      const isRange = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= mostBits);
      const known = ["loopback", "linklocal", "uniquelocal"].includes(item);
      if (!known && (isIP(address) === 0 || !isRange || rest.length > 0))
        this.problem(`${name}: "${item}" is not an address or CIDR, such as 10.0.0.0/8`);
    }
    return items;
  }

  /** Without the names that fastify has for some. */
  networks(name: string): string[] {
    const items = this.addresses(name);
    for (const item of items) {
      if (isIP(item.split("/")[0] ?? "") === 0) this.problem(`${name}: "${item}" is not an address or CIDR, such as 10.0.0.0/8`);
    }
    return items;
  }

  /** Without the slash at its end. */
  publicUrl(name: string): string | undefined {
    const text = this.url(name);
    const url = URL.parse(text ?? "");
    if (url && (url.username || url.password || url.search || url.hash)) this.problem(`${name}: scheme, host and path only`);
    return text?.replace(/\/+$/, "");
  }

  smtpUrl(name: string): string | undefined {
    const text = this.url(name, ["smtp", "smtps"]);
    const url = URL.parse(text ?? "");
    if (url && (!url.hostname || !["", "/"].includes(url.pathname) || url.search || url.hash))
      this.problem(`${name}: must be smtp(s)://[user:password@]host[:port]`);
    if (url && (!isEncoded(url.username) || !isEncoded(url.password)))
      this.problem(`${name}: a % in user or password must be written as %25 (percent-encoding)`);
    return text;
  }

  emailAddress(name: string): string | undefined {
    const text = this.text(name);
    if (text !== undefined && !/^[^\s@<>,;:"()[\]\\]{1,64}@[A-Za-z0-9.-]{1,253}$/.test(text))
      this.problem(`${name}: must be an e-mail address without a name, such as alerts@example.com`);
    return text;
  }

  domains(name: string): string[] {
    const items = this.list(name).map((item) => item.toLowerCase());
    for (const item of items) if (!/^[a-z0-9-]+(?:\.[a-z0-9-]+)*$/.test(item)) this.problem(`${name}: "${item}" is not a domain`);
    return items;
  }

  /** As `-retentionPeriod` of VictoriaMetrics: a number with h, d, w, M or y; without a unit, months of 31 days. */
  retention(name: string, fallback: string): Retention {
    const text = this.text(name) ?? fallback;
    const [, count, unit = ""] = /^(\d+(?:\.\d+)?)([hdwMy]?)$/.exec(text) ?? [];
    const ms = Number(count) * (durationMs(unit === "" || unit === "M" ? "31d" : `1${unit}`) ?? Number.NaN);
    if (!(ms > 0)) this.problem(`${name}: "${text}" is not a retention such as 30d, 8w or 1y`);
    return { text, ms };
  }

  base64(name: string, bytes: number): Buffer | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const decoded = Buffer.from(text, "base64");
    if (decoded.length !== bytes) this.problem(`${name}: must be ${bytes} bytes in base64`);
    return decoded;
  }

  secret(name: string, minimumBytes: number): Buffer | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    if (Buffer.byteLength(text) < minimumBytes) this.problem(`${name}: must be at least ${minimumBytes} bytes`);
    return Buffer.from(text, "utf8");
  }

  program(variable: string, name: string): string[] {
    const given = this.text(variable);
    const cache = this.plain("XDG_CACHE_HOME") ?? join(homedir(), ".cache");
    return given ? [given] : [name, join(cache, "atherops", "tools", name, VICTORIA_METRICS_VERSION, name)];
  }
}
