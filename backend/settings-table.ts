// Lists every setting of the backend in one table of environment variables; the parser, the types, `--help` and the reference page are
// generated from it. X_FILE reads X from a file. To add a setting, add a row and run `npm run reference`.
import { duration, file, flag, integer, list, listen, oneOf, path, proxyUrl, text } from "../common/settings-kinds.ts";
import { group, setting } from "../common/settings-table.ts";
import {
  base64,
  bytes,
  domains,
  emailAddress,
  groupGrants,
  issuer,
  networks,
  postgresUrl,
  proxies,
  publicUrl,
  quorum,
  retention,
  smtpUrl,
  url,
  urls,
} from "./settings-kinds.ts";

const address = listen();

export const SETTINGS_TABLE = {
  ...group("Listeners", {
    api: setting("API_LISTEN", address, {
      default: "127.0.0.1:8080",
      description:
        "Ingest, queries, login, administration. Without a host, the listeners of the backend use `[::]`, which includes IPv4, or `0.0.0.0` if there is no IPv6.",
    }),
    alerting: setting("ALERTING_LISTEN", address, { default: "127.0.0.1:8082", description: "Alert rules and notifications." }),
    health: setting("HEALTH_LISTEN", address, {
      default: "127.0.0.1:9090",
      description: "`/healthz`, `/readyz`, `/metrics`. No authentication: keep it internal.",
    }),
    drainDelayMs: setting("DRAIN_DELAY", duration({ min: 0 }), {
      default: "0s",
      value: "drainDelay",
      valueDefault: "5s",
      description:
        "How long the backend still accepts requests after SIGTERM, while `/readyz` says `draining`: time for load balancers and clients to notice. A second signal ends it.",
    }),
    tlsCertFile: setting("TLS_CERT_FILE", file, {
      value: "tls.secretName",
      description:
        "Certificate of the API and alerting listeners, and of OTLP over gRPC. Requires `TLS_KEY_FILE`. The backend reloads both files when they change.",
    }),
    tlsKeyFile: setting("TLS_KEY_FILE", file, { value: "tls.secretName", description: "Private key of `TLS_CERT_FILE`." }),
    trustedProxies: setting("TRUSTED_PROXIES", proxies, {
      default: "",
      value: "trustedProxies",
      description: "Reverse proxies whose `X-Forwarded-For` is trusted.",
    }),
    maxConnections: setting("MAX_CONNECTIONS", integer({ min: 64 }), {
      default: "8192",
      description:
        "Maximum number of connections to the API and OTLP over gRPC together. The alerting listener has a separate limit of the same size. If a limit is reached, a new connection replaces an idle or unauthenticated one, if there is one.",
    }),
    isConsoleServed: setting("CONSOLE", flag, { default: "true", description: "Serves the console at `/` of the API listener." }),
  }),
  ...group("Ingest without an agent", {
    hasIngestTokens: setting("INGEST_TOKENS", flag, {
      default: "false",
      value: "ingestTokens.enabled",
      description: "Accepts telemetry with ingest tokens: OTLP, Prometheus remote write and Loki push (docs/guides/send).",
    }),
    allowsIngestTokensOverHttp: setting("INGEST_TOKENS_OVER_HTTP", flag, {
      default: "false",
      value: "ingestTokens.overHttp",
      description: "Also accepts ingest tokens that arrive from other machines without TLS. Anyone on the network path can read them.",
    }),
    otlpGrpc: setting("OTLP_GRPC_LISTEN", address, {
      value: "ingestTokens.otlpGrpc",
      valueDefault: "false",
      description:
        "OTLP over gRPC, usually `:4317`, with the certificate of the API if it has one. Requires `INGEST_TOKENS`. Unset: no listener.",
    }),
  }),
  ...group("Engines", {
    dataDir: setting("DATA_DIR", path, {
      default: "./data",
      value: "persistence",
      description: "Folder for all data that the backend stores itself: embedded engines, journals, generated secrets.",
    }),
    databaseUrl: setting("DATABASE_URL", postgresUrl, {
      isSecret: true,
      value: "distributed.connectionSecret",
      description:
        "URL of PostgreSQL; for a primary with standbys, list their hosts in the URL, separated by commas. Unset: SQLite in `DATA_DIR`.",
    }),
    clickhouseUrl: setting("CLICKHOUSE_URL", urls, {
      isSecret: true,
      value: "distributed.connectionSecret",
      description:
        "URL of ClickHouse over HTTP. For several shards, list their URLs, separated by commas. Never change their order, and add new ones at the end. Unset: embedded.",
    }),
    clickhouseCluster: setting("CLICKHOUSE_CLUSTER", text, {
      value: "distributed.clickhouseCluster",
      description: "Name of the ClickHouse cluster: tables are created `ON CLUSTER` and replicated. Required with several shards.",
    }),
    clickhouseSpreadOrganisations: setting("CLICKHOUSE_SPREAD_ORGANISATIONS", list, {
      default: "",
      description:
        "IDs of organisations whose request bodies are distributed to all shards. For all other organisations, the request bodies of one sender go to one shard.",
    }),
    clickhouseInsertQuorum: setting("CLICKHOUSE_INSERT_QUORUM", quorum, {
      default: "auto",
      description:
        "With `CLICKHOUSE_CLUSTER`: number of replicas that must have the rows before the backend answers; `auto`: the majority. `0`: no quorum; the backend answers when the replica that receives the insert has the rows.",
    }),
    clickhouseInsertConnections: setting("CLICKHOUSE_INSERT_CONNECTIONS", integer({ min: 1 }), {
      default: "16",
      description: "Concurrent inserts of one backend replica into each shard of an external ClickHouse.",
    }),
    clickhouseInsertIntervalMs: setting("CLICKHOUSE_INSERT_INTERVAL_MS", integer({ min: 0, max: 5000 }), {
      default: "0",
      unit: "ms",
      description:
        "Only with an external ClickHouse: minimum time between two small inserts into the same table of the same shard by one backend replica. Requests take up to this much longer, and ClickHouse merges fewer parts.",
    }),
    clickhouseQuerySlots: setting("CLICKHOUSE_QUERY_SLOTS", integer({ min: 1 }), {
      default: "8",
      description:
        "Concurrent queries for logs and spans in one backend replica with an external ClickHouse. One organisation can run at most 2 at a time, in all replicas together while they reach PostgreSQL.",
    }),
    clickhousePartialAnswers: setting("CLICKHOUSE_PARTIAL_ANSWERS", flag, {
      default: "false",
      description:
        "While a shard of ClickHouse is unavailable, most queries of users leave out its rows and return a warning, instead of failing. Log rules of alerting do not leave out rows.",
    }),
    clickhouseStoragePolicy: setting("CLICKHOUSE_STORAGE_POLICY", text, {
      description:
        "Storage policy for logs and spans in an external ClickHouse. Requires `CLICKHOUSE_COLD_AFTER_DAYS`. Unset: the tables keep their policy.",
    }),
    clickhouseColdAfterDays: setting("CLICKHOUSE_COLD_AFTER_DAYS", integer({ min: 1 }), {
      unit: "days",
      description: "Age above which logs and spans move to `CLICKHOUSE_COLD_VOLUME`. Requires `CLICKHOUSE_STORAGE_POLICY`.",
    }),
    clickhouseColdVolume: setting("CLICKHOUSE_COLD_VOLUME", text, {
      default: "cold",
      description: "Volume of the storage policy for older rows.",
    }),
    metricsQuerySlots: setting("METRICS_QUERY_SLOTS", integer({ min: 1 }), {
      default: "3",
      description:
        "Concurrent metrics queries in one backend replica; set more for a VictoriaMetrics cluster. With an external VictoriaMetrics, one organisation can use at most half of this number (or 2, if that is more), in all replicas together while they reach PostgreSQL; with the embedded one, at most 2, or 1 on a machine with fewer than 3 cores.",
    }),
    metricsWriteUrl: setting("METRICS_WRITE_URL", url(), {
      value: "distributed.metrics.writeUrl",
      description: "URL of VictoriaMetrics for writes. Requires `METRICS_QUERY_URL`. Unset: embedded.",
    }),
    metricsQueryUrl: setting("METRICS_QUERY_URL", url(), {
      value: "distributed.metrics.queryUrl",
      description: "URL of VictoriaMetrics for queries. Requires `METRICS_WRITE_URL`.",
    }),
    victoriaMetricsPath: setting("VICTORIA_METRICS_PATH", text, {
      description:
        "Path of VictoriaMetrics. Default: `victoria-metrics` on `PATH`; if there is none, the program that `npm start` downloaded.",
    }),
    vmalertPath: setting("VMALERT_PATH", text, {
      description: "Path of vmalert. Default: `vmalert` on `PATH`; if there is none, the program that `npm start` downloaded.",
    }),
    threadPoolSize: setting("UV_THREADPOOL_SIZE", integer({ min: 1 }), {
      default: "16",
      unit: "threads",
      description: "Threads for statements of the embedded ClickHouse, file operations and password hashes.",
    }),
  }),
  ...group("Storage", {
    logsRetentionDays: setting("LOGS_RETENTION_DAYS", integer({ min: 1 }), {
      default: "30",
      unit: "days",
      value: "retention.logsDays",
      description:
        "How long logs are kept, counted from the timestamp of each record, unless an operator has set another time for the organisation or some of its records.",
    }),
    tracesRetentionDays: setting("TRACES_RETENTION_DAYS", integer({ min: 1 }), {
      default: "30",
      unit: "days",
      value: "retention.tracesDays",
      description:
        "How long traces are kept, counted from the timestamp of each span, unless an operator has set another time for the organisation.",
    }),
    metricsRetention: setting("METRICS_RETENTION", retention, {
      default: "30d",
      value: "retention.metrics",
      description:
        "How long the embedded VictoriaMetrics keeps samples; an operator may set a shorter time for an organisation. With an external one, the same as its `-retentionPeriod`: the backend drops older samples that arrive.",
    }),
    metricsJournalFsync: setting("METRICS_JOURNAL_FSYNC", oneOf(["always", "never"]), {
      default: "always",
      description:
        "When the metrics journal is synced. `always`: before a request is acknowledged. `never`: requests are acknowledged without waiting for the disk, so a power failure can lose the newest metrics.",
    }),
    backupEveryMs: setting("BACKUP_EVERY", duration({ min: 60_000 }), {
      value: "backup.every",
      description: "How often the running backend backs up `DATA_DIR`, for example `6h`. Requires `BACKUP_FOLDER`. Unset: never.",
    }),
    backupFolder: setting("BACKUP_FOLDER", path, {
      value: "backup.existingClaim",
      description: "Folder for the backups of this installation only, outside `DATA_DIR` and preferably on another disk.",
    }),
    backupKeep: setting("BACKUP_KEEP", integer({ min: 1 }), {
      default: "7",
      value: "backup.keep",
      description: "Number of backups to keep; during a backup there is one more.",
    }),
  }),
  ...group("Ingest limits", {
    quotaBytesPerSecond: setting("QUOTA_BYTES_PER_SECOND", integer({ min: 0 }), {
      default: "0",
      unit: "bytes/s",
      value: "quota.bytesPerSecond",
      description:
        "Default limit of an organisation, for all replicas together; 0: unlimited. Each request body counts with its decompressed size or its stored size, whichever is larger. Bodies that are rejected for their content count too.",
    }),
    quotaRecordsPerSecond: setting("QUOTA_RECORDS_PER_SECOND", integer({ min: 0 }), {
      default: "0",
      unit: "records/s",
      value: "quota.recordsPerSecond",
      description: "Default limit of an organisation, for all replicas together; 0: unlimited.",
    }),
    quotaActiveSeries: setting("QUOTA_ACTIVE_SERIES", integer({ min: 0 }), {
      default: "0",
      unit: "series",
      value: "quota.activeSeries",
      description:
        "Default limit of an organisation's active series. A series is active for 30 to 60 minutes after its last sample, and counts once for each KiB that its labels begin; the count is accurate to about 2 %. 0: unlimited.",
    }),
    ingestMemoryMib: setting("INGEST_MEMORY_MIB", integer({ min: 64 }), {
      default: "512",
      unit: "MiB",
      description:
        "Memory for request bodies, compressed and decompressed, which organisations share; a body for which none is left is refused. Decoded logs and spans can use another 256 MiB.",
    }),
  }),
  ...group("Alerting", {
    evaluationIntervalMs: setting("EVALUATION_INTERVAL", duration({ min: 1000 }), {
      default: "15s",
      value: "evaluation.interval",
      description:
        "Time between two evaluations of a rule; an external vmalert needs the same `-evaluationInterval`. The window of a log rule must be at least twice as long.",
    }),
    evaluationDelayMs: setting("EVALUATION_DELAY", duration({ min: 0 }), {
      default: "0s",
      description:
        "The embedded vmalert evaluates rules for a time that is this long before the current time. If samples arrive late, set a few seconds.",
    }),
    evaluatorListen: setting("EVALUATOR_LISTEN", listen("0.0.0.0"), {
      default: "127.0.0.1:8880",
      description: "Address of the embedded vmalert. Without a host, it uses `0.0.0.0`.",
    }),
    evaluatorQueryUrl: setting("EVALUATOR_QUERY_URL", urls, {
      value: "distributed.vmalert.queryUrl",
      description:
        "URL of an external vmalert. If several share the rules, list their URLs, separated by commas. Default: the embedded vmalert; with an external VictoriaMetrics, `http://localhost:8880`.",
    }),
    rulesListen: setting("RULES_LISTEN", address, {
      description: "Internal listener that serves the rules to an external vmalert, for example `:8083`.",
    }),
    rulesPassword: setting("RULES_PASSWORD", text, {
      isSecret: true,
      value: "distributed.connectionSecret",
      description:
        'Basic-auth password for reading rules from `RULES_LISTEN` (user "vmalert"). Required with `RULES_LISTEN`. vmalert logs this password as part of a URL, so restrict who can read its log.',
    }),
    alertsPassword: setting("ALERTS_PASSWORD", text, {
      isSecret: true,
      value: "distributed.connectionSecret",
      description: 'Basic-auth password for posting alerts to `RULES_LISTEN` (user "vmalert"). Unset: that listener refuses alerts.',
    }),
    alertmanagerUrl: setting("ALERTMANAGER_URL", url(), {
      value: "alertmanagerUrl",
      description: "An Alertmanager that the embedded vmalert also sends alerts to.",
    }),
    alertingUrl: setting("ALERTING_URL", url(), {
      description:
        "URL of the alerting listener of another process, to which the API forwards `/alerting/`. Unset: this process serves these routes itself, if it has the role `alerting`.",
    }),
  }),
  ...group("Notifications", {
    publicUrl: setting("PUBLIC_URL", publicUrl, {
      value: "publicUrl",
      description:
        "URL at which users reach this backend; notifications, changes and answers to assistants link to it. Unset: notifications have no links, the others relative ones.",
    }),
    notifyAllowedNetworks: setting("NOTIFY_ALLOWED_NETWORKS", networks, {
      default: "",
      value: "notification.allowedNetworks",
      description:
        "Internal networks to which every organisation may send notifications, and from which it may have the keys of trusted issuers fetched, in addition to the internet. These requests use https and do not follow redirects.",
    }),
    notifyCaFile: setting("NOTIFY_CA_FILE", file, {
      description:
        "PEM file of certificate authorities to trust for receivers, trusted issuers and the mail server, in addition to the public ones.",
    }),
    smtpUrl: setting("SMTP_URL", smtpUrl, {
      isSecret: true,
      value: "notification.smtp.existingSecret",
      description: "The mail server, `smtp(s)://[user:password@]host[:port]`. Unset: no e-mail.",
    }),
    smtpFrom: setting("SMTP_FROM", emailAddress, {
      value: "notification.smtp.from",
      description: "The sender's address; required with `SMTP_URL`.",
    }),
    smtpAllowedDomains: setting("SMTP_ALLOWED_DOMAINS", domains, {
      default: "",
      value: "notification.smtp.allowedDomains",
      description: "Domains to whose addresses the backend may send e-mail. It may always send e-mail to the organisation's users.",
    }),
    httpsProxy: setting("HTTPS_PROXY", proxyUrl, {
      isSecret: true,
      isEitherCase: true,
      description:
        "Proxy for https requests to `OIDC_ISSUER`, trusted issuers and notification channels, `http(s)://[user:password@]host:port`. The lower-case variable is read too.",
    }),
    httpProxy: setting("HTTP_PROXY", proxyUrl, { isSecret: true, isEitherCase: true, description: "Proxy for http to `OIDC_ISSUER`." }),
    noProxy: setting("NO_PROXY", text, { isEitherCase: true, description: "Hosts and networks that bypass the proxy." }),
  }),
  ...group("Access", {
    adminEmail: setting("ADMIN_EMAIL", text, {
      default: "admin@localhost",
      value: "admin.email",
      description: "E-mail address of the first user. The backend creates this user at its first start, with the role `operator`.",
    }),
    adminPassword: setting("ADMIN_PASSWORD", text, {
      isSecret: true,
      value: "secrets.existingSecret",
      description:
        "Password of the first user. If it and `DATABASE_URL` are unset, the backend generates one at its first start and keeps it in `DATA_DIR/secrets`.",
    }),
    secretsFolder: setting("SECRETS_FOLDER", path, {
      description: "Folder with a file for each secret that is not in the environment, named like its setting. Files may be missing.",
    }),
    firstInstallToken: setting("FIRST_INSTALL_TOKEN", bytes(32), {
      isSecret: true,
      value: "firstInstallToken.existingSecret",
      description:
        "Install token of the first organisation, created at the first start and valid for 24 hours, so that one cluster can enrol without a login.",
    }),
    masterKey: setting("MASTER_KEY", base64(32), {
      isSecret: true,
      value: "secrets.existingSecret",
      description:
        "Encrypts API keys and the secrets of notification channels at rest. Required with an external engine; otherwise generated.",
    }),
    masterPreviousKey: setting("MASTER_PREVIOUS_KEY", base64(32), {
      isSecret: true,
      description: "The previous `MASTER_KEY` during a rotation; the backend uses it only to decrypt.",
    }),
    jwtSecret: setting("JWT_SECRET", bytes(32), {
      isSecret: true,
      value: "secrets.existingSecret",
      description: "Signs sessions and read tokens. Required with an external engine; otherwise generated.",
    }),
    jwtPreviousSecret: setting("JWT_PREVIOUS_SECRET", bytes(32), {
      isSecret: true,
      description: "The previous `JWT_SECRET` during a rotation; the backend uses it only to verify.",
    }),
    jwtTtlMs: setting("JWT_TTL", duration({ min: 1000 }), {
      default: "15m",
      value: "jwtTtl",
      description: "Lifetime of a session token, which programs and `atherops` get at a login. Browser sessions do not depend on it.",
    }),
    isPasswordLogin: setting("PASSWORD_LOGIN", flag, {
      default: "true",
      description:
        "`false`: only the oldest operator with a password, at first the user `ADMIN_EMAIL`, may log in with a password. Requires `OIDC_ISSUER`.",
    }),
    oidcIssuer: setting("OIDC_ISSUER", issuer, { description: "Identity provider for single sign-on, `https://…`. Unset: none." }),
    oidcClientId: setting("OIDC_CLIENT_ID", text, {
      description: "OAuth client id of this backend; required with `OIDC_ISSUER`.",
    }),
    oidcClientSecret: setting("OIDC_CLIENT_SECRET", text, {
      isSecret: true,
      description: "OAuth client secret; unset for a public client.",
    }),
    oidcScopes: setting("OIDC_SCOPES", text, {
      default: "openid email",
      description: "Requested scopes. Add the scope that returns groups.",
    }),
    oidcGroupsClaim: setting("OIDC_GROUPS_CLAIM", text, { default: "groups", description: "The claim that contains a user's groups." }),
    oidcGroups: setting("OIDC_GROUPS", groupGrants, {
      default: "{}",
      description:
        'Maps groups to an organisation and a role, for example `{"platform": {"org": "default", "role": "admin"}}`; required with `OIDC_ISSUER`. `label_limits` limits viewers.',
    }),
    oidcAllowUnverifiedEmail: setting("OIDC_ALLOW_UNVERIFIED_EMAIL", flag, {
      default: "false",
      description: "Accepts e-mail addresses that no user has even if the provider does not send `email_verified`.",
    }),
  }),
  ...group("Logging", {
    logLevel: setting("LOG_LEVEL", oneOf(["info", "debug", "warn", "error"]), {
      default: "info",
      value: "logLevel",
      description: "Level of the log; `debug` includes requests.",
    }),
  }),
};
