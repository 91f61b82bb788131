import { expect, test } from "vitest";
import { splitAlerts, readAlert } from "./posted-alerts.ts";

const ORG = "11111111-1111-4111-8111-111111111111";
const RULE = "22222222-2222-4222-8222-222222222222";
const OWN = { org_id: ORG, rule_id: RULE, alertgroup: ORG };

async function all(body: string): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const piece of splitAlerts(Buffer.from(body))) found.push(...piece);
  return found;
}

const posted = (labels: object, more: object = {}) => ({
  startsAt: "2026-11-22T10:00:00.5Z",
  endsAt: "2026-11-22T10:04:00.5Z",
  generatorURL: "http://x",
  labels: { alertname: "disk", ...labels, ...OWN },
  annotations: { summary: "s", rule_revision: "3" },
  ...more,
});

test("reads bodies of any size whole, with braces, quotes and backslashes within texts", async () => {
  const values = Array.from({ length: 2000 }, (_, number) => ({ a: `}"\\{[ä${number}`, b: { c: "]" } }));
  expect(await all(JSON.stringify(values))).toEqual(values);
  expect(await all(` ${JSON.stringify(values.slice(0, 3), undefined, 2)}\n`)).toEqual(values.slice(0, 3));
  expect(await all("[]")).toEqual([]);
});

test.each([
  ["no array", '{"a":1}'],
  ["cut off", '[{"a":1},{"b":'],
  ["no JSON", "[{a:1}]"],
  ["within a text", '[{"a":"'],
  ["one enormous alert", `[{"a":"${"x".repeat(300_000)}"}]`],
])("rejects %s", async (_what, body) => {
  await expect(all(body)).rejects.toMatchObject({ code: "malformed_body" });
});

test("removes the server's own labels and annotations from an alert, and keeps its fingerprint for any label order", () => {
  const one = readAlert(posted({ a: "1", b: "2" }));
  const other = readAlert(posted({ b: "2", a: "1" }));
  expect(one).toMatchObject({ orgId: ORG, ruleId: RULE, labels: { a: "1", alertname: "disk", b: "2" }, annotations: { summary: "s" } });
  expect(one?.fingerprint).toMatch(/^[0-9a-f]{16}$/);
  expect(other?.fingerprint).toBe(one?.fingerprint);
  expect(readAlert(posted({ a: "1", b: "3" }))?.fingerprint).not.toBe(one?.fingerprint);
  expect(readAlert(posted({}, { labels: { ...OWN, rule_id: ORG } }))?.fingerprint).not.toBe(
    readAlert(posted({}, { labels: OWN }))?.fingerprint,
  );
});

test("ignores an alert that is not of a stored rule", () => {
  for (const value of [1, null, {}, { labels: 1 }, posted({}, { labels: { alertname: "x" } }), posted({}, { startsAt: "no" })])
    expect(readAlert(value)).toBeUndefined();
  expect(readAlert(posted({}, { labels: { ...OWN, org_id: "x' OR 1=1" } }))).toBeUndefined();
});

test("limits texts, distinguishes truncated ones, and removes what the database rejects", () => {
  const long = (end: string) => readAlert(posted({ a: "x".repeat(5000) + end }, { annotations: { big: "y".repeat(100_000) } }));
  const alert = long("1");
  expect(alert?.labels["a"]).toHaveLength(1024);
  expect(alert?.annotations["big"]).toHaveLength(2048);
  expect(alert?.bytes).toBeLessThan(4000);
  expect(long("2")?.fingerprint).not.toBe(alert?.fingerprint);
  expect(readAlert(posted({ a: "\0\ud800b" }))?.labels["a"]).toBe("\ufffdb");
  const many = Object.fromEntries(Array.from({ length: 500 }, (_, number) => [`l${number}`, "v"]));
  const kept = readAlert(posted({ ...many, severity: "critical" }))?.labels ?? {};
  expect(Object.keys(kept)).toHaveLength(64);
  expect(kept).toMatchObject({ alertname: "disk", severity: "critical" });
});
