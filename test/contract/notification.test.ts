// From a sample to a notification, through a whole backend with the real evaluator: a webhook that a Standard Webhooks library verifies, an
// e-mail on a real SMTP server, the organisation's log of both deliveries, and a receiver that must not be contacted.
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { authority } from "../../agent/upstream/outgoing-proxy.fixture.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import type { Tenant } from "../fixtures/backend-process.ts";
import { call, eventually, signedPost, temporaryFolder } from "../fixtures/processes.ts";
import { type HookBody, verified, WebhookReceiver } from "../fixtures/webhook-receiver.ts";

const EVERY_S = 3;
const folder = temporaryFolder();
const trusted = authority(folder.path, "trusted");
const receiver = await WebhookReceiver.start(trusted);
const forbidden = await WebhookReceiver.start(trusted, undefined, "127.0.0.2");
const mails: string[] = [];
const mail = new SMTPServer({
  authOptional: true,
  disabledCommands: ["STARTTLS"],
  disableReverseLookup: true,
  onData: (stream, _session, done) => {
    const parts: Buffer[] = [];
    stream.on("data", (part: Buffer) => parts.push(part));
    stream.on("end", () => {
      mails.push(Buffer.concat(parts).toString());
      done();
    });
  },
});
const mailListens = mail.listen(0, "127.0.0.1");
if (!mailListens.listening) await once(mailListens, "listening");

const backend = backendOfFile({
  // An alert without updates stays active four times as long: a machine that halts for a moment sends no resolved message.
  EVALUATION_INTERVAL: `${EVERY_S}s`,
  PUBLIC_URL: "https://telemetry.example",
  NOTIFY_ALLOWED_NETWORKS: "127.0.0.1",
  NOTIFY_CA_FILE: trusted.caFile,
  SMTP_URL: `smtp://127.0.0.1:${(mailListens.address() as AddressInfo).port}`,
  SMTP_FROM: "alerts@telemetry.example",
  SMTP_ALLOWED_DOMAINS: "red.example",
});
let red: Tenant;

beforeAll(async () => {
  red = await backend.tenant("red");
});
afterAll(async () => {
  await Promise.all([receiver, forbidden].map((one) => one[Symbol.asyncDispose]()));
  await new Promise<void>((done) => mail.close(() => done()));
  folder[Symbol.dispose]();
});

const ask = async (method: string, path: string, body?: object, { token } = red) =>
  await call(method, `${backend.apiUrl}/alerting${path}`, { bearer: token, body });
const made = async (path: string, body: object, tenant = red) => {
  const answer = await ask("POST", path, body, tenant);
  expect([answer.status, answer.json.message]).toEqual([201, undefined]);
  return answer.json;
};
const say = async (lines: string, { apiKey } = red): Promise<void> => {
  const answer = await signedPost(backend.apiUrl, "/ingest", apiKey, lines);
  expect([answer.status, answer.text]).toEqual([204, ""]);
};
const hookOf = (path: string): object => ({ name: path, kind: "webhook", settings: { url: receiver.url(path) } });
const hooksAt = (path: string) => receiver.received.filter((hook) => hook.path === `/${path}`);
/** As `firing: First firing, Second firing`. */
const wordsOf = ({ status, alerts }: HookBody): string =>
  `${status}: ${alerts
    .map((alert) => `${alert.labels["alertname"]} ${alert.status}`)
    .sort()
    .join(", ")}`;

test("two rules fire in one message; one is silenced, sent again when the silence ends, and both are sent when they resolve", async () => {
  const hook = await made("/channels", hookOf("story"));
  const people = await made("/channels", { name: "people", kind: "email", settings: { to: ["on-call@red.example"] } });
  const channel_ids = [hook.id, people.id];
  const onlyStory = [{ label: "severity", op: "=", value: "critical" }];
  await made("/routes", { matchers: onlyStory, channel_ids, group_by: ["severity"], group_wait: "20s", group_interval: "5s" });
  const rule = (name: string) => {
    const annotations = { summary: `${name} is so` };
    return { name, severity: "critical", expr: `story{rule="${name}"} > 5`, annotations };
  };
  for (const name of ["First", "Second"]) await made("/rules", rule(name));
  const read = (): HookBody[] => hooksAt("story").map((one) => verified(one, hook.signing_secret));
  const story = (): string[] => read().map(wordsOf);
  // The next message may overtake an e-mail that is under way.
  const receives = async (what: string, words: string) =>
    await backend.shows(what, async () => story().at(-1) === words && mails.length === story().length, 120_000);

  await say(`story{rule="First"} 10\nstory{rule="Second"} 10\n`);
  await receives("both fire in one message", "firing: First firing, Second firing");
  const silence = await made("/silences", {
    matchers: [{ name: "alertname", value: "First" }],
    endsAt: new Date(Date.now() + 3600_000).toISOString(),
    comment: "more memory comes today",
  });
  await say(`story{rule="Second"} 1\n`);
  await receives("the other one is over; of the silenced one nothing is said", "resolved: Second resolved");
  await ask("DELETE", `/silences/${silence.id}`);
  await receives("what still fires is sent again", "firing: First firing");
  await say(`story{rule="First"} 1\n`);
  await receives("it is over", "resolved: First resolved");

  expect(story()).toEqual([
    "firing: First firing, Second firing",
    "resolved: Second resolved",
    "firing: First firing",
    "resolved: First resolved",
  ]);
  expect(read()[0]?.alerts[0]?.generatorURL).toMatch(/^https:\/\/telemetry\.example\/#\/alerts\/[0-9a-f-]{36}\?/);
  expect(new Set(read().map(({ groupKey }) => groupKey)).size).toBe(1);
  const ids = hooksAt("story").map(({ id }) => id);
  expect(new Set(ids).size).toBe(4);
  const subjects = (): string[] => mails.map((text) => /^Subject: (.*)$/m.exec(text)?.[1]?.trim() ?? "");
  const title = "Alerts of red (severity=critical)";
  expect(subjects()).toEqual([
    `[FIRING:2] ${title}`,
    "[RESOLVED] Second (severity=critical)",
    "[FIRING:1] First (severity=critical)",
    "[RESOLVED] First (severity=critical)",
  ]);
  expect(["First is so", "Second is so"].map((words) => mails.map((text) => text.includes(words)))).toEqual([
    [true, false, true, true],
    [true, true, false, false],
  ]);
  await eventually("all are listed as delivered", async () => {
    const rows = (await ask("GET", "/deliveries")).json as { id: string; status: string; channel_id: string; http_status: number | null }[];
    const ofHook = rows.filter((row) => row.channel_id === hook.id);
    return ids.every((id) => ofHook.some((row) => row.id === id && row.status === "delivered" && row.http_status === 200));
  });
});

test("rejects a channel to an internal address, and sends nothing there", async () => {
  const body = (port: number, host: string): object => ({ name: "moved", kind: "webhook", settings: { url: `https://${host}:${port}/` } });
  const { id } = await made("/channels", body(receiver.port, "127.0.0.1"));
  const refused = await ask("PUT", `/channels/${id}`, body(forbidden.port, "127.0.0.2"));
  expect(refused.json).toMatchObject({
    error: "invalid_field",
    message: "settings.url: is an address that requests may not be sent to",
  });
  expect((await ask("POST", `/channels/${id}/test`)).json).toEqual({ delivered: true, status: 200, error: null });
  expect(forbidden.connections).toBe(0);
});
