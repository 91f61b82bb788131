// Wrong settings: all problems are reported at once, each names its variable, and no password is logged.
import { expect, test } from "vitest";
import { loggable, readSettings, SettingsError } from "./settings.ts";

function problemsOf(env: NodeJS.ProcessEnv): string {
  try {
    readSettings(env);
  } catch (error) {
    if (error instanceof SettingsError) return error.message;
    throw error;
  }
  return "accepted";
}

test("reports all invalid settings at once, before anything starts", () => {
  const wrong = {
    METRICS_RETENTION: "forever",
    TRUSTED_PROXIES: "10.0.0.0/8,proxy.example",
    TLS_CERT_FILE: "/nowhere/cert.pem",
    TLS_KEY_FILE: "/nowhere/key.pem",
    CLICKHOUSE_CLUSTER: "main",
    ALERTMANAGER_URL: "localhost:9093",
    JWT_TTL: "soon",
  };
  const message = problemsOf(wrong);
  for (const name of Object.keys(wrong)) expect(message).toContain(name);
  expect(message).not.toContain(`"10.0.0.0/8"`);
});

test.each(["METRICS_WRITE_URL", "METRICS_QUERY_URL", "CLICKHOUSE_URL", "DATABASE_URL", "EVALUATOR_QUERY_URL", "ALERTING_URL"])(
  "rejects %s without its scheme",
  (name) => {
    expect(problemsOf({ [name]: "localhost:8428" })).toContain(`${name}: must be a URL that begins with`);
  },
);

test.each(["sslrootcert", "sslcert", "sslkey"])("rejects DATABASE_URL whose %s cannot be read, without its password", (name) => {
  const urlWith = (path: string): string => `postgres://user:hunter2@one:5432,other/accounts?sslmode=verify-full&${name}=${path}`;
  const message = problemsOf({ DATABASE_URL: urlWith("/nowhere/tls.pem") });
  expect(message).toContain(`DATABASE_URL: ${name}: cannot read /nowhere/tls.pem: ENOENT`);
  expect(message).not.toContain("hunter2");
  expect(problemsOf({ DATABASE_URL: urlWith(import.meta.filename) })).not.toContain(name);
});

test.each([
  [{}, "OIDC_CLIENT_ID is required"],
  [{}, "OIDC_GROUPS is required"],
  [{ OIDC_ISSUER: "http://login.example" }, "OIDC_ISSUER: must be https"],
  [{ OIDC_ISSUER: "https://user:password@login.example" }, "OIDC_ISSUER: scheme, host and path only"],
  [{ OIDC_SCOPES: "email groups" }, "OIDC_SCOPES: openid must be one of them"],
  [{ OIDC_GROUPS: "platform=default" }, "OIDC_GROUPS: must be JSON"],
  [{ OIDC_GROUPS: "null" }, "OIDC_GROUPS: must be JSON"],
  [{ OIDC_GROUPS: '["platform"]' }, "OIDC_GROUPS: must be JSON"],
  [{ OIDC_GROUPS: '{"platform":{"org":"default","role":"root"}}' }, "OIDC_GROUPS: must be JSON"],
  [{ OIDC_GROUPS: '{"a":{"org":"b","role":"viewer","label_limits":{"namespace":["shop"]}}}' }, "OIDC_GROUPS: label_limits"],
  [{ OIDC_GROUPS: '{"a":{"org":"b","role":"viewer","label_limits":{}}}' }, "OIDC_GROUPS: label_limits"],
  [{ OIDC_GROUPS: '{"a":{"org":"b","role":"viewer","limits":{"source":["shop"]}}}' }, "OIDC_GROUPS: label_limits"],
  [{ OIDC_GROUPS: '{"a":{"org":"b","role":"admin","label_limits":{"source":["shop"]}}}' }, "OIDC_GROUPS: label_limits"],
  [{ OIDC_ISSUER: "", PASSWORD_LOGIN: "false" }, "PASSWORD_LOGIN: false needs OIDC_ISSUER"],
])("rejects %j for single sign-on: %s", (env, problem) => {
  const message = problemsOf({ OIDC_ISSUER: "https://login.example/realm", ...env });
  expect(message).toContain(problem);
});

test.each([
  [{ SMTP_URL: "smtp://mail.example" }, "SMTP_URL and SMTP_FROM go together"],
  [{ SMTP_FROM: "alerts@example.com" }, "SMTP_URL and SMTP_FROM go together"],
  [{ SMTP_URL: "mail.example:25", SMTP_FROM: "a@b.example" }, "SMTP_URL: must be a URL that begins with smtp:// or smtps://"],
  [{ SMTP_URL: "smtp://u:100%@mail.example", SMTP_FROM: "a@b.example" }, "SMTP_URL: a % in user or password"],
  [{ SMTP_URL: "smtp://mail.example/?tls=no", SMTP_FROM: "a@b.example" }, "SMTP_URL: must be smtp(s)://"],
  [{ SMTP_URL: "smtp://mail.example", SMTP_FROM: "Alerts <a@b.example>" }, "SMTP_FROM: must be an e-mail address without a name"],
  [{ SMTP_ALLOWED_DOMAINS: "example.com, @b.example" }, 'SMTP_ALLOWED_DOMAINS: "@b.example" is not a domain'],
  [{ NOTIFY_ALLOWED_NETWORKS: "10.0.0.0/33" }, "NOTIFY_ALLOWED_NETWORKS: "],
  [{ NOTIFY_ALLOWED_NETWORKS: "loopback" }, "NOTIFY_ALLOWED_NETWORKS: "],
  [{ NOTIFY_CA_FILE: "/nowhere/ca.pem" }, "NOTIFY_CA_FILE: cannot read"],
  [{ PUBLIC_URL: "telemetry.example.com" }, "PUBLIC_URL: must be a URL"],
  [{ PUBLIC_URL: "https://telemetry.example.com/?a=b" }, "PUBLIC_URL: scheme, host and path only"],
])("rejects %j for notifications: %s", (env, problem) => {
  expect(problemsOf(env)).toContain(problem);
});

test("parses networks, an address for links, and a mail server whose URL is a secret", () => {
  const { settings, secrets } = readSettings({
    PUBLIC_URL: "https://telemetry.example.com/a/",
    NOTIFY_ALLOWED_NETWORKS: "10.0.0.0/8, fd00::/8,192.0.2.1",
    SMTP_URL: "smtps://user:p%40ss@mail.example:465",
    SMTP_FROM: "alerts@example.com",
    SMTP_ALLOWED_DOMAINS: "Example.COM",
  });
  expect(settings).toMatchObject({
    publicUrl: "https://telemetry.example.com/a",
    notifyAllowedNetworks: ["10.0.0.0/8", "fd00::/8", "192.0.2.1"],
    smtpFrom: "alerts@example.com",
    smtpAllowedDomains: ["example.com"],
  });
  expect(secrets.smtpUrl).toBe("smtps://user:p%40ss@mail.example:465");
  expect(JSON.stringify(loggable(settings))).not.toContain("mail.example");
});

test("parses an issuer, a client and groups for single sign-on", () => {
  const OIDC_GROUPS = JSON.stringify({ platform: { org: "default", role: "operator" } });
  const { settings, secrets } = readSettings({
    OIDC_ISSUER: "https://login.example/realm/",
    OIDC_CLIENT_ID: "atherops",
    OIDC_CLIENT_SECRET: "a-clients-secret",
    OIDC_GROUPS,
    PASSWORD_LOGIN: "false",
    HTTPS_PROXY: "http://me:a-proxys-password@proxy:3128",
  });
  expect(settings.oidc).toEqual({
    issuer: "https://login.example/realm/",
    clientId: "atherops",
    scopes: "openid email",
    groupsClaim: "groups",
    grants: [{ group: "platform", org: "default", role: "operator" }],
    allowsUnverifiedEmail: false,
  });
  expect(secrets.oidcClientSecret).toBe("a-clients-secret");
  expect(JSON.stringify(loggable(settings))).not.toMatch(/a-clients-secret|a-proxys-password/);
});

test("accepts values in the forms that operators write", () => {
  for (const JWT_TTL of ["15m", "1000ms", "48h", "90d", "1h30m", "2w"]) expect(problemsOf({ JWT_TTL })).toBe("accepted");
  expect(problemsOf({ TRUSTED_PROXIES: "127.0.0.1, 10.0.0.0/8, fd00::/8, loopback" })).toBe("accepted");
});

test.each([
  ["30d", 30],
  ["36h", 1.5],
  ["2w", 14],
  ["1y", 365],
  ["1.5y", 547.5],
  ["1M", 31],
  ["12", 12 * 31],
])("passes a retention of %s to VictoriaMetrics, and parses it as %d days", (METRICS_RETENTION, days) => {
  expect(readSettings({ METRICS_RETENTION }).settings.metricsRetention).toEqual({ text: METRICS_RETENTION, ms: days * 86_400_000 });
});

test.each(["forever", "0d", "-1d", "1h30m"])("rejects a retention of %s", (METRICS_RETENTION) => {
  expect(problemsOf({ METRICS_RETENTION })).toContain(`METRICS_RETENTION: "${METRICS_RETENTION}" is not a retention such as 30d, 8w or 1y`);
});

test("masks the password of a URL when settings are logged", () => {
  const { settings } = readSettings({
    ALERTMANAGER_URL: "https://me:s3cret@alerts.example/x",
    EVALUATOR_QUERY_URL: "http://u:p@ss@vmalert:8880",
  });
  const line = JSON.stringify(loggable(settings));
  expect(line).toContain("https://[redacted]@alerts.example/x");
  expect(line).not.toMatch(/s3cret|p@ss/);
});

test("requires a folder outside of DATA_DIR, an interval and an embedded engine for backups", () => {
  const DATA_DIR = "/var/lib/atherops";
  const backups = { DATA_DIR, BACKUP_EVERY: "6h", BACKUP_FOLDER: "/backup" };
  expect(readSettings(backups).settings.backups).toEqual({ folder: "/backup", everyMs: 6 * 3_600_000, keep: 7 });
  expect(readSettings({}).settings.backups).toBeUndefined();
  for (const [wrong, message] of [
    [{ BACKUP_EVERY: "6h" }, "BACKUP_EVERY and BACKUP_FOLDER go together"],
    [{ ...backups, BACKUP_FOLDER: `${DATA_DIR}/backups` }, "BACKUP_FOLDER: is inside DATA_DIR"],
    [{ ...backups, BACKUP_EVERY: "5s" }, "BACKUP_EVERY"],
    [{ ...backups, BACKUP_KEEP: "0" }, "BACKUP_KEEP"],
    [
      { ...backups, DATABASE_URL: "postgres://db/a", CLICKHOUSE_URL: "http://ch", METRICS_WRITE_URL: "http://vm" },
      "BACKUP_EVERY: every engine is external",
    ],
  ] as const)
    expect(problemsOf(wrong)).toContain(message);
});
