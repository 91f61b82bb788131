// Reads the settings of the backend with settings-table.ts and composes them. All problems are reported in one message, and the process
// exits with 2. No other file of backend/ reads the environment.
import { maskSecrets } from "../common/mask.ts";
import { cachedProgram } from "../common/settings-kinds.ts";
import { type SecretsOf, settingsHelp, SettingsReader } from "../common/settings-table.ts";
import { SETTINGS_TABLE } from "./settings-table.ts";

export type { ListenAddress } from "../common/settings-kinds.ts";
export { SettingsError } from "../common/settings-table.ts";
export type { GroupGrant, Retention } from "./settings-kinds.ts";

/** The parts of the backend that a process can run: `--roles`. */
export const ROLES = ["api", "alerting"] as const;
export type Role = (typeof ROLES)[number];

/** The pinned version whose builds are in the tool cache; the same as in hack/fetch-tools.ts. */
const VICTORIA_METRICS_VERSION = "1.150.0";

/** Configuration that may be logged. */
export type Settings = ReturnType<typeof readPlain>;
export type OidcSettings = NonNullable<Settings["oidc"]>;
type PlainValues = ReturnType<typeof readTable>;
/** Configuration that must never be logged; URLs are here because they may contain passwords. */
export type Secrets = SecretsOf<typeof SETTINGS_TABLE>;

/** Reads and validates everything. Throws one SettingsError that lists all problems. */
export function readSettings(env: NodeJS.ProcessEnv = process.env): { settings: Settings; secrets: Secrets } {
  const reader = new SettingsReader(env, "", env["SECRETS_FOLDER"]);
  const settings = readPlain(reader);
  const secrets = reader.readSecrets(SETTINGS_TABLE);
  checkTogether(reader, settings, secrets);
  reader.finish();
  return { settings, secrets };
}

export const helpOfSettings = (): string => settingsHelp(SETTINGS_TABLE);

/** The settings of commands that use the accounts only, without those of a running backend. */
export function readAccountSettings(env: NodeJS.ProcessEnv = process.env): { dataDir: string; databaseUrl: string | undefined } {
  const reader = new SettingsReader(env, "", env["SECRETS_FOLDER"]);
  const databaseUrl = reader.read(SETTINGS_TABLE.databaseUrl);
  const dataDir = reader.read(SETTINGS_TABLE.dataDir);
  reader.finish();
  return { dataDir, databaseUrl };
}

/** The settings for a log line, with the passwords in addresses of engines masked. */
export function loggable(settings: Settings): unknown {
  return JSON.parse(JSON.stringify(settings, (_name, value: unknown) => (typeof value === "string" ? maskSecrets(value) : value)));
}

function readTable(reader: SettingsReader) {
  return reader.readPlain(SETTINGS_TABLE);
}

function readPlain(reader: SettingsReader) {
  const { tlsCertFile, tlsKeyFile, backupEveryMs, backupFolder, backupKeep, oidcIssuer, ...values } = readTable(reader);
  const { oidcClientId, oidcScopes, oidcGroupsClaim, oidcGroups, oidcAllowUnverifiedEmail, ...rest } = values;
  const { ingestMemoryMib, metricsJournalFsync, victoriaMetricsPath, vmalertPath, ...others } = rest;
  const { clickhouseStoragePolicy, clickhouseColdAfterDays, clickhouseColdVolume, secretsFolder: _, ...plain } = others;
  if ((tlsCertFile === undefined) !== (tlsKeyFile === undefined)) reader.problem("TLS_CERT_FILE and TLS_KEY_FILE go together");
  return {
    ...plain,
    tls: tlsCertFile && tlsKeyFile ? { certFile: tlsCertFile, keyFile: tlsKeyFile } : undefined,
    /** Candidates in order of preference; a bare name is looked up on PATH. */
    victoriaMetricsPath: programPaths(reader, "victoria-metrics", victoriaMetricsPath),
    vmalertPath: programPaths(reader, "vmalert", vmalertPath),
    oidc: readOidc(reader, { oidcIssuer, oidcClientId, oidcScopes, oidcGroupsClaim, oidcGroups, oidcAllowUnverifiedEmail }),
    isMetricsJournalSynced: metricsJournalFsync === "always",
    backups: readBackups(reader, { backupEveryMs, backupFolder, backupKeep, dataDir: plain.dataDir }),
    ingestMemoryBytes: ingestMemoryMib * 1024 * 1024,
    clickhouseTier: readTier(reader, { clickhouseStoragePolicy, clickhouseColdAfterDays, clickhouseColdVolume }),
  };
}

type TierValues = Pick<PlainValues, "clickhouseStoragePolicy" | "clickhouseColdAfterDays" | "clickhouseColdVolume">;

function readTier(reader: SettingsReader, values: TierValues) {
  const { clickhouseStoragePolicy: policy, clickhouseColdAfterDays: afterDays, clickhouseColdVolume: volume } = values;
  if (policy !== undefined && afterDays !== undefined) return { policy, afterDays, volume };
  if (policy !== undefined || afterDays !== undefined)
    reader.problem("CLICKHOUSE_STORAGE_POLICY and CLICKHOUSE_COLD_AFTER_DAYS go together");
  return undefined;
}

function programPaths(reader: SettingsReader, name: string, path: string | undefined): readonly string[] {
  return path === undefined ? [name, cachedProgram(reader, name, VICTORIA_METRICS_VERSION)] : [path];
}

function readBackups(
  reader: SettingsReader,
  { backupEveryMs, backupFolder, backupKeep, dataDir }: Pick<PlainValues, "backupEveryMs" | "backupFolder" | "backupKeep" | "dataDir">,
) {
  if (backupEveryMs === undefined && backupFolder === undefined) return undefined;
  if (backupEveryMs === undefined || backupFolder === undefined) {
    reader.problem("BACKUP_EVERY and BACKUP_FOLDER go together");
    return undefined;
  }
  if (`${backupFolder}/`.startsWith(`${dataDir}/`))
    reader.problem("BACKUP_FOLDER: is inside DATA_DIR: choose a folder elsewhere, on another disk");
  return { folder: backupFolder, everyMs: backupEveryMs, keep: backupKeep };
}

type OidcValues = Pick<PlainValues, Extract<keyof PlainValues, `oidc${string}`>>;

function readOidc(reader: SettingsReader, values: OidcValues) {
  const { oidcIssuer, oidcClientId, oidcScopes, oidcGroups } = values;
  if (oidcIssuer === undefined) return undefined;
  if (!oidcScopes.split(" ").includes("openid")) reader.problem("OIDC_SCOPES: openid must be one of them");
  if (oidcGroups.length === 0) reader.problem("OIDC_GROUPS is required with OIDC_ISSUER: without a group no user is let in");
  if (oidcClientId === undefined) reader.problem("OIDC_CLIENT_ID is required");
  return {
    issuer: oidcIssuer,
    clientId: oidcClientId ?? "",
    scopes: oidcScopes,
    groupsClaim: values.oidcGroupsClaim,
    grants: oidcGroups,
    allowsUnverifiedEmail: values.oidcAllowUnverifiedEmail,
  };
}

function checkTogether(reader: SettingsReader, settings: Settings, secrets: Secrets): void {
  const require = (isMet: boolean, problem: string) => {
    if (!isMet) reader.problem(problem);
  };
  require((settings.metricsWriteUrl === undefined) ===
    (settings.metricsQueryUrl === undefined), "METRICS_WRITE_URL and METRICS_QUERY_URL go together");
  require(!settings.clickhouseCluster ||
    secrets.clickhouseUrl !== undefined, "CLICKHOUSE_CLUSTER needs CLICKHOUSE_URL: the embedded engine has no cluster");
  require(!settings.clickhouseTier ||
    secrets.clickhouseUrl !== undefined, "CLICKHOUSE_STORAGE_POLICY needs CLICKHOUSE_URL: the embedded engine has one disk");
  require(Boolean(settings.clickhouseCluster) ||
    !secrets.clickhouseUrl?.includes(","), "CLICKHOUSE_URL names several shards: set CLICKHOUSE_CLUSTER, the cluster that has them");
  require(settings.isPasswordLogin || settings.oidc !== undefined, "PASSWORD_LOGIN: false needs OIDC_ISSUER: no user could log in");
  require((secrets.smtpUrl === undefined) === (settings.smtpFrom === undefined), "SMTP_URL and SMTP_FROM go together");
  require(!settings.rulesListen || secrets.rulesPassword !== undefined, "RULES_PASSWORD is required with RULES_LISTEN");
  require(secrets.alertsPassword === undefined ||
    secrets.alertsPassword !== secrets.rulesPassword, "ALERTS_PASSWORD must differ from RULES_PASSWORD, which vmalert writes to its log");
  require(!(
    settings.backups &&
    settings.metricsWriteUrl &&
    secrets.databaseUrl &&
    secrets.clickhouseUrl
  ), "BACKUP_EVERY: every engine is external, so DATA_DIR has nothing to back up; back up the engines themselves (docs/backup.md)");
  if (!hasExternalEngine(settings, secrets)) return;
  require(secrets.masterKey !== undefined, "MASTER_KEY is required with an external engine: make one with `openssl rand -base64 32`");
  require(secrets.jwtSecret !== undefined, "JWT_SECRET is required with an external engine: make one with `openssl rand -base64 48`");
}

/** True if any engine is external: secrets then come from settings instead of DATA_DIR/secrets. */
export function hasExternalEngine(settings: Settings, secrets: Secrets): boolean {
  return [settings.metricsWriteUrl, secrets.databaseUrl, secrets.clickhouseUrl].some((engineUrl) => engineUrl !== undefined);
}
