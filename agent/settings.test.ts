import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { inValueNames, readEnrolmentToken, readSettings, SettingsError } from "./settings.ts";

const CLUSTER = {
  BACKEND_URL: "https://b.example",
  CLUSTER_NAME: "c",
  NODE_NAME: "n1",
  POD_NAMESPACE: "ns",
  POD_UID: "u",
  KUBERNETES_SERVICE_HOST: "10.0.0.1",
};

function problemsOf(identity: "host" | "cluster", env: NodeJS.ProcessEnv): string {
  try {
    readSettings(identity, env);
  } catch (error) {
    if (error instanceof SettingsError) return error.message;
    throw error;
  }
  return "accepted";
}

describe("settings of the agent", () => {
  test("have the documented defaults for each identity", () => {
    const host = readSettings("host", { BACKEND_URL: "https://b.example:8443/" }).settings;
    expect(host).toMatchObject({
      backendUrl: "https://b.example:8443",
      proxy: { host: "127.0.0.1", port: 9599 },
      health: { host: "", port: 9598 },
      otlpGrpc: { host: "127.0.0.1", port: 4317 },
      heartbeatIntervalMs: 30_000,
      signals: ["metrics", "logs", "traces"],
      host: { credentialsFile: "/etc/atherops/credentials.json", logPaths: ["/var/log/**/*.log"] },
      cluster: undefined,
    });
    const cluster = readSettings("cluster", CLUSTER).settings;
    expect(cluster).toMatchObject({
      otlpGrpc: { host: "", port: 4317 },
      host: undefined,
      cluster: {
        secretName: "cluster-agent-credentials",
        leaseName: "cluster-agent",
        keyRotationDays: 30,
        kubeletTls: "verify",
        nodeIp: "n1",
      },
    });
  });

  test.each([
    [undefined, "/srv/app/*.log", ["/var/log/**", "/srv/app/*.log"]],
    ["/srv/**", "/srv/app/*.log,/srv/**/x.log", ["/srv/**"]],
    [
      "/var/log/**",
      "/var/log/*.log,/srv/app/*.log",
      'LOG_PATHS: "/srv/app/*.log" is outside of LOG_PATHS_ALLOWED: add it there, or remove it here',
    ],
    ["/srv/app/*.log", "/srv/**", 'LOG_PATHS: "/srv/**" is outside of LOG_PATHS_ALLOWED: add it there, or remove it here'],
  ])("LOG_PATHS_ALLOWED=%s limits LOG_PATHS=%s", (allowed, paths, expected) => {
    const env = { BACKEND_URL: "https://b.example", LOG_PATHS: paths, ...(allowed && { LOG_PATHS_ALLOWED: allowed }) };
    const problem = problemsOf("host", env);
    const limit = problem === "accepted" && readSettings("host", env).settings.host?.logPathsAllowed;
    expect(limit || problem.trim().split("\n").at(-1)?.trim()).toEqual(expected);
  });

  test("are all validated in one message that names each variable", () => {
    const message = problemsOf("host", {
      BACKEND_URL: "http://b.example/x",
      HEARTBEAT_INTERVAL: "soon",
      SIGNALS: "smoke",
      LOG_PATHS: "a/*.log",
    });
    for (const name of ["BACKEND_URL", "HEARTBEAT_INTERVAL", "SIGNALS", "LOG_PATHS"]) expect(message).toContain(name);
    expect(problemsOf("cluster", {})).toMatch(/BACKEND_URL is required[^]*NODE_NAME is required[^]*CLUSTER_NAME is required/);
  });

  test.each([
    ["http://127.0.0.1:8080", {}, "accepted"],
    ["http://[::1]:8080", {}, "accepted"],
    ["http://localhost:8080", {}, "accepted"],
    ["http://b.example", {}, "ALLOW_PLAIN_HTTP"],
    ["http://127.0.0.1.example", {}, "ALLOW_PLAIN_HTTP"],
    ["http://b.example", { ALLOW_PLAIN_HTTP: "true" }, "accepted"],
    ["https://user:pw@b.example", {}, "only scheme, host and port"],
    ["https://b.example/path", {}, "only scheme, host and port"],
    ["ftp://b.example", {}, "not an http"],
  ])("validate BACKEND_URL %s with %o: %s", (url, env, expected) => {
    const message = problemsOf("host", { BACKEND_URL: url, ...env });
    expect(message).toContain(expected);
  });

  test("reject log policies without the relay, which validates annotations", () => {
    expect(problemsOf("cluster", { ...CLUSTER, LOG_POLICIES: "true" })).toBe("accepted");
    expect(problemsOf("cluster", { ...CLUSTER, LOG_POLICIES: "true", POD_RELAY: "false" })).toMatch(/LOG_POLICIES.*POD_RELAY=true/);
  });

  test("name the chart values that set them if the agent runs from a chart", () => {
    const env = { VALUE_NAMES: '{"BACKEND_URL":"backendUrl","ALLOW_PLAIN_HTTP":"allowPlainHttp","INSTALL_TOKEN":"installToken"}' };
    const message = problemsOf("cluster", { ...CLUSTER, BACKEND_URL: "http://b.example", INSTALL_TOKEN_FILE: "/", OTELCOL_PATH: "" });
    expect(inValueNames(message, env)).toBe(
      "wrong settings:\n  backendUrl: with plain http, telemetry is sent unencrypted: use https, or set allowPlainHttp=true\n" +
        "  installToken: cannot read /: EISDIR",
    );
    for (const VALUE_NAMES of [undefined, "", "nonsense", "null"]) expect(inValueNames(message, { VALUE_NAMES })).toBe(message);
  });

  test("pass an expression in the collector's syntax on, and reject an empty one", () => {
    for (const pattern of ["^\\d{4}-", "(?i)^error", "^(?P<year>\\d{4})"])
      expect(problemsOf("cluster", { ...CLUSTER, LOG_MULTILINE_START: pattern })).toBe("accepted");
    expect(problemsOf("cluster", { ...CLUSTER, LOG_MULTILINE_START: "[" })).toContain("not a regular expression");
    expect(problemsOf("cluster", { ...CLUSTER, REDACT: "secret\\S+\n(?i)token=\\w*" })).toBe("accepted");
    expect(problemsOf("cluster", { ...CLUSTER, REDACT: "secret\n(?:x|\\d*)" })).toContain('REDACT: "(?:x|\\d*)" matches empty text');
  });

  test.each(["METRICS_INTERVAL", "HEARTBEAT_INTERVAL", "LOG_MAX_AGE", "COLLECTOR_STOP_GRACE"])("reject a %s of 300 years", (name) => {
    expect(problemsOf("host", { BACKEND_URL: "https://b.example", [name]: "300y" })).toContain(`${name}: "300y" is not a duration`);
  });

  test.each(["QUEUE_MIB", "COLLECTOR_MEMORY_MIB"])("reject a %s in bytes", (name) => {
    const problem = problemsOf("host", { BACKEND_URL: "https://b.example", [name]: String(512 * 1024 * 1024) });
    expect(problem).toContain(`${name}: must be a whole number from`);
  });

  test("reject a CA file without a certificate, which Node.js would ignore", () => {
    const folder = mkdtempSync(join(tmpdir(), "atherops-settings-"));
    const file = join(folder, "ca.crt");
    try {
      expect(problemsOf("host", { BACKEND_URL: "https://b.example", BACKEND_CA_FILE: file })).toContain(`${file} cannot be read: ENOENT`);
      for (const text of ["", "<html>", "-----BEGIN CERTIFICATE-----\nMIIabc\n-----END CERTIFICATE-----\n"]) {
        writeFileSync(file, text);
        const env = { ...CLUSTER, BACKEND_CA_FILE: file, KUBELET_TLS: file };
        expect(problemsOf("cluster", env).match(/\w+: \S+ has no valid certificate/g)).toHaveLength(2);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("reject a proxy address that is not loopback", () => {
    expect(problemsOf("host", { BACKEND_URL: "https://b.example", PROXY_LISTEN: "0.0.0.0:9599" })).toContain(
      "PROXY_LISTEN: must be a loopback",
    );
  });

  test("read a secret from its _FILE variable, and keep it out of the plain settings and error messages", () => {
    const folder = mkdtempSync(join(tmpdir(), "atherops-settings-"));
    try {
      const file = join(folder, "token");
      writeFileSync(file, "it_secret-value\n");
      writeFileSync(`${file}-of-an-editor`, "\uFEFFit_secret-value \r\n\r\n");
      const [plain, edited] = [file, `${file}-of-an-editor`].map((INSTALL_TOKEN_FILE) => readEnrolmentToken({ INSTALL_TOKEN_FILE }));
      expect(edited).toEqual(plain);
      const { settings, secrets } = readSettings("host", { BACKEND_URL: "https://b.example", INSTALL_TOKEN_FILE: file });
      expect(secrets.installToken).toBe("it_secret-value");
      expect(JSON.stringify(settings)).not.toContain("secret-value");
      expect(problemsOf("host", { INSTALL_TOKEN: "secret-value", HTTPS_PROXY: "user:secret-value@p" })).not.toContain("secret-value");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
