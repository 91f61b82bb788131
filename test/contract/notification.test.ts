// From a rule that fires to what its people have: a webhook that a library of Standard Webhooks verifies, an e-mail on a real SMTP server,
// and what the organisation's log of deliveries says of both; and a receiver that must not be reached.
import { once } from "node:events";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, expect, test } from "vitest";
import { authority } from "../../agent/upstream/outgoing-proxy.fixture.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import type { Tenant } from "../fixtures/backend-process.ts";
import { call, eventually, temporaryFolder } from "../fixtures/processes.ts";

interface Body {
  status: string;
  groupKey: string;
  alerts: { status: string; labels: Record<string, string>; generatorURL: string }[];
}

const folder = temporaryFolder();
const trusted = authority(folder.path, "trusted");
const hooks: { headers: Record<string, string>; body: string }[] = [];
const receiver = createServer({ key: trusted.key, cert: trusted.cert }, (request, response) => {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => {
    hooks.push({ headers: request.headers as Record<string, string>, body: Buffer.concat(parts).toString() });
    response.end();
  });
}).listen(0, "127.0.0.1");
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
let forbiddenConnections = 0;
const forbidden = createServer({ key: trusted.key, cert: trusted.cert }).listen(0, "127.0.0.2");
forbidden.on("connection", () => (forbiddenConnections += 1));
await Promise.all([receiver, mailListens, forbidden].map(async (server) => server.listening || (await once(server, "listening"))));
const portOf = (server: { address(): unknown }): number => (server.address() as AddressInfo).port;

const backend = backendOfFile({
  EVALUATION_INTERVAL: "1s",
  PUBLIC_URL: "https://telemetry.example",
  NOTIFY_ALLOWED_NETWORKS: "127.0.0.1",
  NOTIFY_CA_FILE: trusted.caFile,
  SMTP_URL: `smtp://127.0.0.1:${portOf(mailListens)}`,
  SMTP_FROM: "alerts@telemetry.example",
  SMTP_ALLOWED_DOMAINS: "red.example",
});
let red: Tenant;

beforeAll(async () => {
  red = await backend.tenant("red");
});
afterAll(async () => {
  receiver.closeAllConnections();
  await Promise.all([receiver, forbidden, mail].map((server) => new Promise<void>((done) => server.close(() => done()))));
  folder[Symbol.dispose]();
});

const ask = async (method: string, path: string, body?: object) =>
  await call(method, `${backend.apiUrl}/alerting${path}`, { bearer: red.token, body });
const made = async (path: string, body: object) => {
  const answer = await ask("POST", path, body);
  expect([answer.status, answer.json.message]).toEqual([201, undefined]);
  return answer.json;
};

test("two rules that fire are one message to each channel, verified and read there, and another when they are over", async () => {
  const hook = await made("/channels", { name: "hook", kind: "webhook", settings: { url: `https://127.0.0.1:${portOf(receiver)}/a` } });
  const people = await made("/channels", { name: "people", kind: "email", settings: { to: ["on-call@red.example"] } });
  const channel_ids = [hook.id, people.id];
  await made("/routes", { matchers: [], channel_ids, group_by: ["severity"], group_wait: "3s", group_interval: "5s" });
  const rule = (name: string): object => ({
    name,
    severity: "critical",
    expr: "absent(no_such_metric)",
    annotations: { summary: `${name} is so` },
  });
  const rules = [await made("/rules", rule("First")), await made("/rules", rule("Second"))];

  const read = (): Body[] => hooks.map(({ headers, body }) => new Webhook(hook.signing_secret).verify(body, headers) as Body);
  const names = (body: Body | undefined): string[] => (body?.alerts ?? []).map(({ labels }) => labels["alertname"] ?? "").sort();
  await eventually(
    "both fire in one message",
    async () => read().some((body) => names(body).length === 2 && body.status === "firing"),
    60_000,
  );
  await eventually(
    "an e-mail tells both",
    async () => mails.some((text) => text.includes("First is so") && text.includes("Second is so")),
    60_000,
  );
  expect(read().at(-1)?.alerts[0]?.generatorURL).toMatch(/^https:\/\/telemetry\.example\/#\/alerts\?rule=/);

  for (const { id } of rules) await ask("DELETE", `/rules/${id}`);
  await eventually("it is over", async () => read().some((body) => body.status === "resolved"), 120_000);
  await eventually("an e-mail says so", async () => mails.some((text) => /^Subject: \[RESOLVED\]/m.test(text)), 60_000);
  expect(new Set(read().map(({ groupKey }) => groupKey)).size).toBe(1);
  const ids = hooks.map(({ headers }) => headers["webhook-id"]);
  expect(new Set(ids).size).toBe(ids.length);
  await eventually("all are told as delivered", async () => {
    const rows = (await ask("GET", "/deliveries")).json as { id: string; status: string; channel_id: string; http_status: number | null }[];
    const ofHook = rows.filter((row) => row.channel_id === hook.id);
    return ids.every((id) => ofHook.some((row) => row.id === id && row.status === "delivered" && row.http_status === 200));
  });
});

test("a channel is not led to an address inside, and nothing is sent there", async () => {
  const body = (port: number, host: string): object => ({ name: "moved", kind: "webhook", settings: { url: `https://${host}:${port}/` } });
  const { id } = await made("/channels", body(portOf(receiver), "127.0.0.1"));
  const refused = await ask("PUT", `/channels/${id}`, body(portOf(forbidden), "127.0.0.2"));
  expect(refused.json).toMatchObject({
    error: "invalid_field",
    message: "settings.url: is an address that notifications may not be sent to",
  });
  expect((await ask("POST", `/channels/${id}/test`)).json).toEqual({ delivered: true, status: 200, error: null });
  expect(forbiddenConnections).toBe(0);
});
