// The settings as an operator gets them wrong: all problems at once, each naming its variable, and no password in a log line.
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

test("wrong settings are all told at once, before anything starts", () => {
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
  "%s without its scheme is refused",
  (name) => {
    expect(problemsOf({ [name]: "localhost:8428" })).toContain(`${name}: must be a URL that begins with`);
  },
);

test("what operators write is taken", () => {
  for (const METRICS_RETENTION of ["30d", "36h", "2w", "1y", "1.5y", "12"]) expect(problemsOf({ METRICS_RETENTION })).toBe("accepted");
  expect(problemsOf({ TRUSTED_PROXIES: "127.0.0.1, 10.0.0.0/8, fd00::/8, loopback" })).toBe("accepted");
});

test("a log line of the settings shows no password of a URL", () => {
  const { settings } = readSettings({
    ALERTMANAGER_URL: "https://me:s3cret@alerts.example/x",
    EVALUATOR_QUERY_URL: "http://u:p@ss@vmalert:8880",
  });
  const line = JSON.stringify(loggable(settings));
  expect(line).toContain("https://***@alerts.example/x");
  expect(line).not.toMatch(/s3cret|p@ss/);
});
