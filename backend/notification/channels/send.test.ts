// Sends through each kind of channel to a real receiver if one is available here: a TLS receiver that verifies with a Standard Webhooks
// library, and an SMTP server. The receiver's response determines the outcome.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:https";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Authority, authority, outgoingProxy } from "../../../agent/upstream/outgoing-proxy.fixture.ts";
import { Email, type EmailOptions } from "./email.ts";
import { HOSTILE, messageOf } from "../model/message.fixture.ts";
import type { ChannelKind, OpenChannel } from "../model/message.ts";
import { Outgoing } from "../../outgoing/outgoing.ts";
import { createSend } from "./send.ts";
import { newSigningSecret } from "./webhook.ts";

const folder = mkdtempSync(join(tmpdir(), "atherops-send-test-"));
const open: (() => unknown)[] = [];
let trusted: Authority;
beforeAll(() => {
  trusted = authority(folder, "trusted");
  return () => rmSync(folder, { recursive: true });
});
afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close();
});

const alive = new AbortController().signal;

function channel(kind: ChannelKind, settings: object, secret: string, previousSecret?: string): OpenChannel {
  return { id: "c", orgId: "o", name: "on call", kind, enabled: true, settings: { ...settings }, secret, previousSecret };
}

/** Answers each POST with the next status, the last one from then on. */
async function receiver(statuses: number[] = [200], text = "") {
  const seen: { headers: Record<string, string>; body: string; url: string }[] = [];
  const server = createServer({ key: trusted.key, cert: trusted.cert }, (request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      seen.push({ headers: request.headers as Record<string, string>, body: Buffer.concat(parts).toString(), url: request.url ?? "" });
      response.writeHead((statuses.length > 1 ? statuses.shift() : statuses[0]) ?? 200).end(text);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  open.push(() => (server.closeAllConnections(), new Promise((done) => server.close(done))));
  const { port } = server.address() as AddressInfo;
  return { seen, port, url: `https://127.0.0.1:${port}/hook` };
}

function sender(more: Partial<Parameters<typeof createSend>[0]> = {}) {
  return createSend({ outgoing: new Outgoing({ allowedNetworks: ["127.0.0.1"], caFile: trusted.caFile }), ...more });
}

describe("a webhook", () => {
  test("verifies with a Standard Webhooks library; its id stays, its time changes, both secrets verify during a rotation", async () => {
    const { seen, url } = await receiver();
    const [secret, previous] = [newSigningSecret(), newSigningSecret()];
    const message = messageOf();
    let atMs = Date.now() - 5000;
    const send = sender({ now: () => (atMs += 2000) });
    for (const previousSecret of [undefined, previous])
      expect(await send(channel("webhook", { url }, secret, previousSecret), message, alive)).toEqual({ delivered: true, httpStatus: 200 });
    const [first, second] = seen as [(typeof seen)[0], (typeof seen)[0]];
    expect(new Webhook(secret).verify(first.body, first.headers)).toMatchObject({ version: "4", status: "firing" });
    expect(() => new Webhook(previous).verify(first.body, first.headers)).toThrow(/signature/);
    for (const one of [secret, previous]) new Webhook(one).verify(second.body, second.headers);
    expect([first.headers["webhook-id"], second.headers["webhook-id"]]).toEqual([message.id, message.id]);
    expect(Number(second.headers["webhook-timestamp"])).toBe(Number(first.headers["webhook-timestamp"]) + 2);
    expect(first.headers["content-type"]).toBe("application/json");
  });

  test.each([
    [200, { delivered: true }],
    [204, { delivered: true }],
    [301, { retry: false, error: "the receiver responded with status 301: redirects are not followed" }],
    [400, { retry: false, error: "the receiver responded with status 400" }],
    [404, { retry: false }],
    [408, { retry: true }],
    [410, { retry: false }],
    [429, { retry: true }],
    [500, { retry: true, error: "the receiver responded with status 500" }],
    [503, { retry: true }],
  ])("that gets %i returns %j, without the receiver's response body", async (status, outcome) => {
    const { url } = await receiver([status], "the operator's own page");
    const got = await sender()(channel("webhook", { url }, newSigningSecret()), messageOf(), alive);
    expect(got).toMatchObject({ httpStatus: status, ...outcome });
    expect(JSON.stringify(got)).not.toContain("own page");
  });

  test("to a forbidden address fails permanently, to one without a listener is retried", async () => {
    const { seen, port } = await receiver();
    const closed = sender({ outgoing: new Outgoing({ allowedNetworks: [] }) });
    expect(await closed(channel("webhook", { url: `https://127.0.0.1:${port}/` }, newSigningSecret()), messageOf(), alive)).toEqual({
      delivered: false,
      retry: false,
      error: "the URL is an address that requests may not be sent to",
    });
    const gone = await sender()(channel("webhook", { url: "https://127.0.0.1:1/" }, newSigningSecret()), messageOf(), alive);
    expect(gone).toEqual({ delivered: false, retry: true, error: "no response: ECONNREFUSED" });
    expect(seen).toEqual([]);
  });
});

test("posts Slack's format to the secret URL", async () => {
  const { seen, port } = await receiver();
  const got = await sender()(channel("slack", {}, `https://127.0.0.1:${port}/services/T/B/x`), messageOf(), alive);
  expect(got).toMatchObject({ delivered: true });
  expect(seen[0]?.url).toBe("/services/T/B/x");
  expect(JSON.parse(seen[0]?.body ?? "")).toMatchObject({ text: "[FIRING:1] HighLoad" });
});

test("posts an Adaptive Card to the secret URL of Microsoft Teams, and returns no text of that host", async () => {
  const { seen, port } = await receiver([202, 400], "sig=secret is wrong");
  const teams = channel("msteams", {}, `https://127.0.0.1:${port}/workflows/x?sig=secret`);
  expect(await sender()(teams, messageOf(), alive)).toEqual({ delivered: true, httpStatus: 202 });
  expect(seen[0]?.url).toBe("/workflows/x?sig=secret");
  expect(JSON.parse(seen[0]?.body ?? "")).toMatchObject({ type: "message", attachments: [{ content: { type: "AdaptiveCard" } }] });
  const refused = await sender()(teams, messageOf(), alive);
  expect(refused).toMatchObject({ delivered: false, retry: false, error: "the receiver responded with status 400" });
  const closed = sender({ outgoing: new Outgoing({ allowedNetworks: [] }) });
  expect(await closed(teams, messageOf(), alive)).toMatchObject({ delivered: false, retry: false });
  expect(seen).toHaveLength(2);
});

test("posts Opsgenie's key as a header, and never in the URL or the body", async () => {
  const posts: Parameters<Outgoing["post"]>[0][] = [];
  const outgoing = Object.assign(new Outgoing({ allowedNetworks: [] }), {
    post: async (post: (typeof posts)[0]) => {
      posts.push(post);
      return { status: 422, text: '{"message":"Key format is not valid!"}', retryAfterMs: undefined };
    },
  });
  const key = "eb243592-faa2-4ba2-a551-1afdf565c889";
  for (const region of ["us", "eu", "jsm"]) {
    const outcome = await sender({ outgoing })(channel("opsgenie", { region }, key), messageOf(), alive);
    expect(outcome).toMatchObject({ delivered: false, retry: false, error: expect.stringContaining("Key format is not valid!") });
  }
  expect(posts.map(({ url }) => url.host)).toEqual(["api.opsgenie.com", "api.eu.opsgenie.com", "api.atlassian.com"]);
  for (const { url, body, headers } of posts) {
    expect(headers).toMatchObject({ authorization: `GenieKey ${key}`, "content-type": "application/json" });
    expect(url.href + body).not.toContain(key);
  }
});

test("sends PagerDuty and Opsgenie requests to their own host names only", async () => {
  const proxy = await outgoingProxy(1, "403 Forbidden");
  open.push(proxy.close);
  const send = sender({ outgoing: new Outgoing({ allowedNetworks: [], httpsProxy: `http://127.0.0.1:${proxy.port}` }) });
  for (const region of ["us", "eu"])
    expect(await send(channel("pagerduty", { region }, "R".repeat(32)), messageOf(), alive)).toMatchObject({
      delivered: false,
      retry: true,
    });
  for (const region of ["us", "eu", "jsm"])
    expect(await send(channel("opsgenie", { region }, "k".repeat(36)), messageOf(), alive)).toMatchObject({ retry: true });
  const hosts = ["events.pagerduty.com", "events.eu.pagerduty.com", "api.opsgenie.com", "api.eu.opsgenie.com", "api.atlassian.com"];
  expect(proxy.asked).toEqual(hosts.map((host) => `CONNECT ${host}:443`));
});

describe("an e-mail", () => {
  async function mailServer(options: SMTPServerOptions = {}) {
    const mails: { to: string[]; from: string; text: string; secure: boolean; user: unknown }[] = [];
    const server = new SMTPServer({
      key: trusted.key,
      cert: trusted.cert,
      authOptional: true,
      disableReverseLookup: true,
      onAuth: ({ username, password }, _session, done) =>
        password === "p@ss/word" ? done(null, { user: username }) : done(new Error("no such login")),
      onData: (stream, { envelope, secure, user }, done) => {
        const parts: Buffer[] = [];
        stream.on("data", (part: Buffer) => parts.push(part));
        stream.on("end", () => {
          const from = envelope.mailFrom === false ? "" : envelope.mailFrom.address;
          const to = envelope.rcptTo.map(({ address }) => address);
          mails.push({ from, to, text: Buffer.concat(parts).toString(), secure, user });
          done();
        });
      },
      ...options,
    });
    // What a client does that gives up.
    server.on("error", () => undefined);
    const listening = server.listen(0, "127.0.0.1");
    await once(listening, "listening");
    open.push(() => new Promise<void>((done) => server.close(done)));
    return { mails, port: (listening.address() as AddressInfo).port };
  }

  function mailer(smtpUrl: string, more: Partial<EmailOptions> = {}) {
    const users = ["one@blue.example", "admin@localhost"];
    const email = new Email({
      smtpUrl,
      from: "alerts@telemetry.example",
      allowedDomains: ["partner.example"],
      caFile: trusted.caFile,
      findUsers: async (_orgId, addresses) => addresses.filter((address) => users.includes(address)),
      ...more,
    });
    return sender({ email });
  }

  const to = (...addresses: string[]): OpenChannel => channel("email", { to: addresses }, "");

  test("reaches users and listed domains only, as text over TLS with the operator's login", async () => {
    const { mails, port } = await mailServer();
    const send = mailer(`smtp://someone:p%40ss%2Fword@localhost:${port}`);
    const message = messageOf();
    const got = await send(to("One@blue.example", "admin@localhost", "any@partner.example", "any@evil.example"), message, alive);
    expect(got).toEqual({ delivered: true });
    expect(mails).toHaveLength(1);
    const [mail] = mails;
    expect(mail).toMatchObject({ from: "alerts@telemetry.example", secure: true, user: "someone" });
    expect(mail?.to).toEqual(["One@blue.example", "admin@localhost", "any@partner.example"]);
    expect(mail?.text).toMatch(/^Subject: \[FIRING:1\] HighLoad\r$/m);
    expect(mail?.text).toMatch(/^Content-Type: text\/plain/m);
    expect(mail?.text).toContain(`Message-ID: <${message.id}@telemetry.example>`);
    expect(mail?.text).toMatch(/^Auto-Submitted: auto-generated\r$/m);
    expect(mail?.text).not.toContain("evil.example");
  });

  test("uses TLS from the first byte for a smtps URL", async () => {
    const { mails, port } = await mailServer({ secure: true });
    expect(await mailer(`smtps://localhost:${port}`)(to("one@blue.example"), messageOf(), alive)).toEqual({ delivered: true });
    expect(mails[0]?.secure).toBe(true);
  });

  test("contains no header and no recipient from the value of a label", async () => {
    const { mails, port } = await mailServer();
    const labels = { alertname: HOSTILE, team: HOSTILE };
    const message = messageOf({ org: { id: "o", name: HOSTILE }, receiver: HOSTILE, groupLabels: labels, commonLabels: labels });
    expect(await mailer(`smtp://localhost:${port}`)(to("one@blue.example"), message, alive)).toEqual({ delivered: true });
    expect(mails[0]?.to).toEqual(["one@blue.example"]);
    const [head = ""] = (mails[0]?.text ?? "").split("\r\n\r\n", 1);
    expect(
      head
        .replaceAll(/\r\n[ \t]/g, "")
        .split("\r\n")
        .map((line) => line.split(":", 1)[0] ?? "")
        .sort(),
    ).toEqual(
      "Auto-Submitted Content-Transfer-Encoding Content-Type Date From MIME-Version Message-ID References Subject To".split(" ").sort(),
    );
  });

  test("without a permitted recipient fails permanently; two addresses in one entry are invalid", async () => {
    const { mails, port } = await mailServer();
    const send = mailer(`smtp://localhost:${port}`);
    const odd = [
      "one@blue.example,any@evil.example",
      '"any@evil.example x"@partner.example',
      "any@evil.example\r\n@partner.example",
      "@evil.example:x@partner.example",
    ];
    for (const address of ["gone@blue.example", ...odd])
      expect(await send(to(address), messageOf(), alive)).toEqual({
        delivered: false,
        retry: false,
        error: "no recipient is still a user of the organisation",
      });
    expect(mails).toEqual([]);
  });

  test.each([
    [450, { retry: true, error: "the mail server answered 450" }],
    [550, { retry: false, error: "the mail server answered 550" }],
  ])("that the server rejects with %i returns %j, without the server's message", async (responseCode, outcome) => {
    const { port } = await mailServer({
      onRcptTo: (_address, _session, done) => done(Object.assign(new Error("mx7.internal says no"), { responseCode })),
    });
    expect(await mailer(`smtp://localhost:${port}`)(to("one@blue.example"), messageOf(), alive)).toEqual({ delivered: false, ...outcome });
  });

  test("is retried if the login is rejected, no server listens, or the server hangs", async () => {
    const { port } = await mailServer();
    const wrong = await mailer(`smtp://someone:wrong@localhost:${port}`)(to("one@blue.example"), messageOf(), alive);
    expect(wrong).toEqual({ delivered: false, retry: true, error: "the mail server rejects the credentials of SMTP_URL" });
    const gone = await mailer("smtp://127.0.0.1:1")(to("one@blue.example"), messageOf(), alive);
    expect(gone).toMatchObject({ delivered: false, retry: true, error: expect.stringMatching(/^the mail server cannot be reached/) });
    const hanging = await mailServer({ onData: () => undefined });
    const given = await mailer(`smtp://localhost:${hanging.port}`, { timeoutMs: 1500 })(to("one@blue.example"), messageOf(), alive);
    expect(given).toMatchObject({ delivered: false, retry: true });
  });

  test("sends no password without TLS, and trusts only configured authorities", async () => {
    const logins: unknown[] = [];
    const { port } = await mailServer({
      hideSTARTTLS: true,
      onAuth: (login, _session, done) => (logins.push(login), done(null, { user: 1 })),
    });
    const plain = await mailer(`smtp://someone:secret@[::ffff:127.0.0.1]:${port}`)(to("one@blue.example"), messageOf(), alive);
    expect(plain).toMatchObject({ delivered: false, retry: true });
    expect(logins).toEqual([]);
    const tls = await mailServer({ secure: true });
    const got = await mailer(`smtps://localhost:${tls.port}`, { caFile: undefined })(to("one@blue.example"), messageOf(), alive);
    expect([got.delivered, tls.mails]).toEqual([false, []]);
  });

  test("fails with the reason if the operator has no SMTP server", async () => {
    expect(await sender()(to("one@blue.example"), messageOf(), alive)).toMatchObject({
      retry: false,
      error: expect.stringContaining("SMTP_URL"),
    });
  });
});
