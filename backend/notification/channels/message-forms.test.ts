// The form of a message in each kind of channel: what people and programs read, and that no value of a label can change it.
import { describe, expect, test } from "vitest";
import { buildEmail } from "./email.ts";
import { alertOf, HOSTILE, messageOf } from "../model/message.fixture.ts";
import { oneLine, defaultTitle } from "./message-template.ts";
import { teamsBody } from "./msteams.ts";
import { opsgenieRequest } from "./opsgenie.ts";
import { pagerDutyEvent } from "./pagerduty.ts";
import { slackBody } from "./slack.ts";
import { webhookBody } from "./webhook.ts";

const hostileLabels = { alertname: HOSTILE, severity: HOSTILE, team: HOSTILE };
const hostile = messageOf({
  org: { id: "o", name: HOSTILE },
  receiver: HOSTILE,
  groupKey: HOSTILE,
  groupLabels: hostileLabels,
  commonLabels: hostileLabels,
  alerts: [alertOf({ labels: { ...hostileLabels, other: HOSTILE }, annotations: { summary: HOSTILE, description: HOSTILE } })],
});
const routing = { routingKey: "R".repeat(32), region: "us" } as const;
const resolved = messageOf({
  status: "resolved",
  alerts: [alertOf({ status: "resolved", endsAt: "2026-11-22T11:00:00.000Z" })],
});
const many = messageOf({
  alerts: Array.from({ length: 100 }, (_, n) =>
    alertOf({ labels: { alertname: "HighLoad", instance: `node-${n} ${"x".repeat(5000)}` }, annotations: { summary: "<".repeat(5000) } }),
  ),
  truncatedAlerts: 9900,
});

describe("a title", () => {
  test("contains the number of firing alerts, their name, and the labels of their group", () => {
    expect(defaultTitle(messageOf())).toBe("[FIRING:1] HighLoad");
    expect(defaultTitle(messageOf({ groupLabels: { alertname: "HighLoad", team: "web" } }))).toBe("[FIRING:1] HighLoad (team=web)");
    expect(defaultTitle(messageOf({ groupLabels: {}, commonLabels: {} }))).toBe("[FIRING:1] Alerts of Blue");
    expect(defaultTitle(resolved)).toBe("[RESOLVED] HighLoad");
    expect(defaultTitle(many)).toBe("[FIRING:10000] HighLoad");
    expect(defaultTitle(messageOf({ purpose: "heartbeat", alerts: [] }))).toBe("[ALIVE] Alerting of Blue is alive");
    expect(defaultTitle(messageOf({ purpose: "test" }))).toBe("[TEST] Test of the channel on call");
  });

  test("is one line of limited length, and splits no character", () => {
    expect(oneLine("a\r\n\tb\u2029c\0", 10)).toBe("a b c");
    expect(oneLine("😀".repeat(10), 6)).toBe("😀😀…");
    expect(oneLine("\ud800x", 10)).toBe("\ufffdx");
    expect(defaultTitle(hostile, 120)).toHaveLength(120);
  });
});

/** The hour around the start of the alert. */
const CHANGES = "https://telemetry.example/#/changes?from=2026-11-22T09%3A10%3A00.000Z&to=2026-11-22T10%3A10%3A00.000Z";

describe("a webhook", () => {
  test("has Alertmanager's version 4, field by field, and our own fields next to it", () => {
    const message = messageOf({ alerts: [alertOf(), ...resolved.alerts], truncatedAlerts: 3 });
    const rule = "11111111-1111-4111-8111-111111111111";
    const alert = { labels: alertOf().labels, annotations: alertOf().annotations, startsAt: "2026-11-22T10:00:00.000Z" };
    const page = `https://telemetry.example/#/alerts/${rule}`;
    const generatorURL = `${page}?label=instance%3Dnode-1&at=2026-11-22T10%3A00%3A00.000Z`;
    expect(JSON.parse(webhookBody(message))).toEqual({
      version: "4",
      groupKey: '{}:{alertname="HighLoad"}',
      truncatedAlerts: 3,
      status: "firing",
      receiver: "on call",
      groupLabels: { alertname: "HighLoad" },
      commonLabels: { alertname: "HighLoad", severity: "warning" },
      commonAnnotations: {},
      externalURL: "https://telemetry.example/",
      alerts: [
        { ...alert, status: "firing", endsAt: "0001-01-01T00:00:00Z", generatorURL, fingerprint: "0123456789abcdef" },
        { ...alert, status: "resolved", endsAt: "2026-11-22T11:00:00.000Z", generatorURL, fingerprint: "0123456789abcdef" },
      ],
      atherops: {
        purpose: "alerts",
        org: message.org,
        rule_id: rule,
        url: `${page}?at=2026-11-22T10%3A00%3A00.000Z`,
        changes_url: CHANGES,
      },
    });
  });

  test("contains values unchanged, and no link if the URL of the console is unknown", () => {
    const read = JSON.parse(webhookBody({ ...hostile, externalUrl: "" }));
    expect([read.alerts[0].labels.team, read.alerts[0].generatorURL, read.atherops.url]).toEqual([HOSTILE, "", null]);
  });
});

describe("Slack", () => {
  const read = (message = messageOf()) => JSON.parse(slackBody(message));

  test("shows the title, each alert's own labels, and a link to the console", () => {
    const { text, attachments } = read();
    expect(text).toBe("[FIRING:1] HighLoad");
    expect(attachments[0]).toMatchObject({
      color: "#e8a317",
      text: "Load of node-1 is 12\ninstance=node-1",
      title_link: "https://telemetry.example/#/alerts/11111111-1111-4111-8111-111111111111?at=2026-11-22T10%3A00%3A00.000Z",
      author_link: CHANGES,
      footer: "Blue",
    });
    expect(read(resolved).attachments[0].color).toBe("#2e9e44");
  });

  test("escapes mentions, links and bold text in values, and unfurls no URL", () => {
    const body = read(hostile);
    const texts = [body.text, body.attachments[0].text, body.attachments[0].fallback, body.attachments[0].footer].join(" ");
    expect(texts).not.toMatch(/[<>]|&(?!amp;|lt;|gt;)/);
    expect(texts).toContain("&lt;!channel&gt; &lt;@U1&gt; &lt;https://evil.example|click&gt; &amp; *bold*");
    expect(body).toMatchObject({ mrkdwn: false, parse: "none", link_names: false, unfurl_links: false, unfurl_media: false });
    expect(body.attachments[0].mrkdwn_in).toEqual([]);
  });

  test("shows as many alerts as fit, and the number of omitted ones", () => {
    const { attachments } = read(many);
    expect(attachments[0].text.length).toBeLessThan(3000);
    expect(attachments[0].text).toMatch(/…$/);
    const short = messageOf({ alerts: Array.from({ length: 30 }, () => alertOf()), truncatedAlerts: 5 });
    expect(read(short).attachments[0].text).toMatch(/and 25 more$/);
  });
});

describe("Microsoft Teams", () => {
  const read = (message = messageOf()) => JSON.parse(teamsBody(message));
  const run = (block: { inlines: [{ text: string; color?: string }] }) => block.inlines[0];

  test("gets a message with one Adaptive Card: the title, each alert's own labels, and links to the console", () => {
    const { type, attachments } = read();
    expect([type, attachments.length]).toEqual(["message", 1]);
    expect(attachments[0]).toMatchObject({ contentType: "application/vnd.microsoft.card.adaptive", contentUrl: null });
    const { content } = attachments[0];
    expect(content).toMatchObject({ type: "AdaptiveCard", version: "1.2", msteams: { width: "Full" } });
    expect(content.body.map((block: Parameters<typeof run>[0]) => run(block).text)).toEqual([
      "[FIRING:1] HighLoad",
      "Load of node-1 is 12\ninstance=node-1",
      "Blue",
    ]);
    expect(content.actions).toEqual([
      {
        type: "Action.OpenUrl",
        title: "Console",
        url: "https://telemetry.example/#/alerts/11111111-1111-4111-8111-111111111111?at=2026-11-22T10%3A00%3A00.000Z",
      },
      { type: "Action.OpenUrl", title: "What changed", url: CHANGES },
    ]);
    expect(read({ ...messageOf(), externalUrl: "" }).attachments[0].content.actions).toEqual([]);
  });

  test("shows the severity as a colour", () => {
    const colourOf = (message = messageOf()) => run(read(message).attachments[0].content.body[0]).color;
    const critical = messageOf({ alerts: [alertOf({ labels: { severity: "critical" } })] });
    const info = messageOf({ alerts: [alertOf({ labels: {} })] });
    expect([critical, messageOf(), info, resolved].map(colourOf)).toEqual(["Attention", "Warning", "Accent", "Good"]);
  });

  test("shows values as plain text, in blocks that have no Markdown", () => {
    const { body } = read(hostile).attachments[0].content;
    for (const { type, inlines } of body) expect([type, inlines[0].type]).toEqual(["RichTextBlock", "TextRun"]);
    expect(run(body[1]).text).toContain("<!channel> <@U1> <https://evil.example|click> & *bold* <b>x</b>  Bcc:");
  });

  test("is below 28 KB with any text, and has the number of omitted alerts", () => {
    const wide = messageOf({ alerts: many.alerts.map((alert) => ({ ...alert, annotations: { summary: "\u20ac".repeat(5000) } })) });
    for (const message of [many, wide, hostile]) expect(Buffer.byteLength(teamsBody(message))).toBeLessThan(28_000);
    const custom = { title: "\u20ac".repeat(8000), text: '"'.repeat(8000) };
    expect(Buffer.byteLength(teamsBody(many, custom))).toBeLessThan(28_000);
    const short = messageOf({ alerts: Array.from({ length: 30 }, () => alertOf()), truncatedAlerts: 5 });
    expect(run(read(short).attachments[0].content.body[1]).text).toMatch(/and 25 more$/);
  });
});

describe("Opsgenie", () => {
  const read = (message = messageOf()) => {
    const { url, body } = opsgenieRequest(message, "us");
    return { url: url.href, body: JSON.parse(body) };
  };

  test("gets an alert with alias, priority, details and links, which is closed by the same alias", () => {
    const { url, body } = read();
    expect(url).toBe("https://api.opsgenie.com/v2/alerts");
    expect(body).toEqual({
      message: "[FIRING:1] HighLoad",
      alias: expect.stringMatching(/^[0-9a-f]{64}$/),
      description: `Load of node-1 is 12\ninstance=node-1\n\nConsole: https://telemetry.example/#/alerts/11111111-1111-4111-8111-111111111111?at=2026-11-22T10%3A00%3A00.000Z\n\nWhat changed: ${CHANGES}`,
      details: { alertname: "HighLoad", severity: "warning" },
      source: "Blue",
      priority: "P3",
    });
    expect(read(resolved)).toEqual({
      url: `https://api.opsgenie.com/v2/alerts/${body.alias}/close?identifierType=alias`,
      body: { source: "Blue" },
    });
    expect(read(messageOf({ groupKey: "another" })).body.alias).not.toBe(body.alias);
  });

  test("has the address of its region, and the priority of the highest severity", () => {
    expect(opsgenieRequest(messageOf(), "eu").url.href).toBe("https://api.eu.opsgenie.com/v2/alerts");
    expect(opsgenieRequest(messageOf(), "jsm").url.href).toBe("https://api.atlassian.com/jsm/ops/integration/v2/alerts");
    const critical = messageOf({ alerts: [alertOf(), alertOf({ labels: { severity: "critical" } })] });
    const info = messageOf({ alerts: [alertOf({ labels: {} })] });
    expect([critical, info].map((message) => read(message).body.priority)).toEqual(["P1", "P5"]);
  });

  test("stays within the limits of Opsgenie", () => {
    const labels = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`label_${n}`, "v".repeat(500)]));
    const { body } = read({ ...many, commonLabels: labels, org: { id: "o", name: "n".repeat(300) } });
    expect(JSON.stringify(body.details).length).toBeLessThan(8500);
    expect(Object.keys(body.details).length).toBeGreaterThan(20);
    expect([body.source.length, body.description.length <= 15_000]).toEqual([100, true]);
    const custom = { title: "t".repeat(500), text: "x".repeat(8000) };
    expect(JSON.parse(opsgenieRequest(messageOf(), "us", custom).body)).toMatchObject({ message: `${"t".repeat(129)}…` });
    const { message, details } = read(hostile).body;
    expect([message.length <= 130, JSON.stringify([message, details])]).toEqual([true, expect.not.stringMatching(/\\r|\\n|\u202e/)]);
  });

  test("pings a heartbeat of the channel's name, which creates no alert", () => {
    const heartbeat = messageOf({ purpose: "heartbeat", alerts: [], receiver: "on call/../x" });
    expect(read(heartbeat)).toEqual({ url: "https://api.opsgenie.com/v2/heartbeats/on%20call%2F..%2Fx/ping", body: {} });
  });
});

describe("PagerDuty", () => {
  const read = (message = messageOf()) => JSON.parse(pagerDutyEvent(message, routing).body);

  test("is triggered and resolved under one key, at the address of its region", () => {
    expect(read()).toMatchObject({
      routing_key: routing.routingKey,
      event_action: "trigger",
      dedup_key: '{}:{alertname="HighLoad"}',
      payload: { summary: "[FIRING:1] HighLoad", source: "Blue", severity: "warning", timestamp: "2026-11-22T10:00:00.000Z" },
    });
    expect(read().links).toContainEqual({ href: CHANGES, text: "What changed" });
    expect(read(resolved)).toEqual({
      routing_key: routing.routingKey,
      event_action: "resolve",
      dedup_key: '{}:{alertname="HighLoad"}',
    });
    expect(pagerDutyEvent(messageOf(), routing).url.href).toBe("https://events.pagerduty.com/v2/enqueue");
    expect(pagerDutyEvent(messageOf(), { ...routing, region: "eu" }).url.href).toBe("https://events.eu.pagerduty.com/v2/enqueue");
  });

  test("limits the key, which is the same for trigger and resolve, and the event", () => {
    const groupKey = "k".repeat(300);
    const keys = [messageOf({ groupKey }), { ...resolved, groupKey }].map((message) => read(message).dedup_key);
    expect(keys[0]).toMatch(/^[0-9a-f]{64}$/);
    expect(keys[1]).toBe(keys[0]);
    expect(pagerDutyEvent(many, routing).body.length).toBeLessThan(32_000);
    expect(read(many).payload.custom_details).toMatchObject({ more: "and 9990 more" });
  });

  test("sends a heartbeat as a change event, which pages no one", () => {
    const { url, body } = pagerDutyEvent(messageOf({ purpose: "heartbeat", alerts: [] }), routing);
    expect(url.href).toBe("https://events.pagerduty.com/v2/change/enqueue");
    expect(JSON.parse(body)).toMatchObject({ payload: { summary: "[ALIVE] Alerting of Blue is alive", source: "Blue" } });
  });
});

describe("an e-mail", () => {
  test("contains alerts, labels and the link, and belongs to the thread of its group", () => {
    const message = messageOf();
    const { subject, text, messageId, references } = buildEmail(message, "example.com");
    expect(subject).toBe("[FIRING:1] HighLoad");
    for (const part of ["firing: Load of node-1 is 12", "  instance=node-1", "  since 2026-11-22T10:00:00.000Z", "  severity: warning"])
      expect(text).toContain(part);
    expect(text).toContain("https://telemetry.example/#/alerts/");
    expect(text).toContain(`what changed: ${CHANGES}`);
    expect(text).toContain('Sent by the channel "on call" of Blue.');
    expect(messageId).toBe(`<${message.id}@example.com>`);
    expect(buildEmail(resolved, "example.com").references).toBe(references);
    expect(buildEmail({ ...message, org: { id: "another", name: "Blue" } }, "example.com").references).not.toBe(references);
  });

  test("has one line per value, with any content", () => {
    const { subject, text } = buildEmail(hostile, "example.com");
    expect(subject).not.toMatch(/[\r\n\u2028\u202e\0]/);
    expect(text).not.toMatch(/^ *bcc:/im);
    expect(text).not.toMatch(/[\r\u2028\u202e\0]/);
    expect(buildEmail(many, "example.com").text.length).toBeLessThan(20_000);
  });
});
