// Custom message texts: their placeholders, how values are inserted, and their cost limits.
import { describe, expect, test } from "vitest";
import { MAX_MESSAGE_TEXT_LENGTH, MAX_TEXT_TEMPLATE_LENGTH } from "../notification-limits.ts";
import { buildEmail } from "./email.ts";
import { alertOf, HOSTILE, messageOf } from "../model/message.fixture.ts";
import { renderTemplates, findTemplateProblem } from "./message-template.ts";
import { pagerDutyEvent } from "./pagerduty.ts";
import { slackBody } from "./slack.ts";

const two = messageOf({
  commonLabels: { alertname: "HighLoad", team: "shop" },
  commonAnnotations: { runbook: "https://runbooks.example/load" },
  alerts: [
    alertOf({ labels: { alertname: "HighLoad", instance: "node-1" } }),
    alertOf({ status: "resolved", endsAt: "2026-11-22T11:00:00.000Z", labels: { alertname: "HighLoad", instance: "node-2" } }),
  ],
});
const text = (template: string, message = two): string | undefined => renderTemplates({ text: template }, message).text;

test("names all fields of a message, and of each alert in a list", () => {
  expect(text("{{ status }} {{count}}: {{ labels.team }}, see {{annotations.runbook}} ({{ organisation }}, {{ channel }})")).toBe(
    "firing 1: shop, see https://runbooks.example/load (Blue, on call)",
  );
  expect(text("{{ title }}\n{{#alerts}}* {{ labels.instance }} {{ status }} {{ starts_at }}..{{ ends_at }}\n{{/alerts}}{{ url }}")).toBe(
    [
      "[FIRING:1] HighLoad",
      "* node-1 firing 2026-11-22T10:00:00.000Z..",
      "* node-2 resolved 2026-11-22T10:00:00.000Z..2026-11-22T11:00:00.000Z",
      "https://telemetry.example/#/alerts/11111111-1111-4111-8111-111111111111?label=team%3Dshop&at=2026-11-22T10%3A00%3A00.000Z",
    ].join("\n"),
  );
  const changes = "{{ changes_url }}";
  expect([findTemplateProblem(changes, "text"), text(changes)]).toEqual([
    undefined,
    expect.stringContaining("/#/changes?from=2026-11-22T09"),
  ]);
  expect(text("{{{ labels.team }}}")).toBe("{shop}");
  expect(renderTemplates({ title: " {{ labels.nothing }}", text: "{{ annotations.nothing }}\n" }, two)).toEqual({});
  expect(text("[{{ labels.nothing }}{{ annotations.toString }}{{ labels.constructor }}{{ labels.__proto__ }}]")).toBe("[]");
});

describe("rejects", () => {
  test.each([
    ["{{ nothing }}", /unknown placeholder .*: use status, count, title, organisation, channel, url, changes_url, labels\.<name>/],
    ["{{ constructor }}", /unknown placeholder/],
    ["{{ __proto__ }}", /unknown placeholder/],
    ["{{ labels }}", /unknown placeholder/],
    ["{{ labels.a.b }}", /unknown placeholder/],
    ["{{ labels['a'] }}", /unknown placeholder/],
    ["{{#alerts}}{{ count }}{{/alerts}}", /unknown placeholder .* in \{\{#alerts\}\}: use status, starts_at, ends_at/],
    ["{{ starts_at }}", /unknown placeholder/],
    ["{{#labels}}{{/labels}}", /unknown placeholder/],
    ["{{> other}}", /unknown placeholder/],
    ["{{=<% %>=}}", /unknown placeholder/],
    ["{{ labels.a", /without the other/],
    ["labels.a }}", /without the other/],
    ["{{#alerts}}", /without \{\{\/alerts\}\}/],
    ["{{/alerts}}", /without \{\{#alerts\}\}/],
    ["{{#alerts}}{{#alerts}}{{/alerts}}{{/alerts}}", /in \{\{#alerts\}\}/],
    ["a\u0000b", /control character/],
    ["a\u202eb", /control character/],
    ["half a character: \ud83d", /control character/],
    ["{{status}}".repeat(101), /more than 100 placeholders/],
  ])("%s", (template, why) => {
    expect(findTemplateProblem(template, "text")).toMatch(why);
    expect(text(template)).toBeUndefined();
  });

  test("no template with exactly the permitted placeholders", () => {
    expect(findTemplateProblem("{{status}}".repeat(100), "text")).toBeUndefined();
  });

  test("a list in a title", () => {
    expect(findTemplateProblem("{{#alerts}}x{{/alerts}}", "title")).toMatch(/only in the text/);
    expect(findTemplateProblem("{{ labels.team }}: {{ count }}", "title")).toBeUndefined();
  });
});

test("renders a value as one line of limited length, and does not expand it again", () => {
  const odd = messageOf({ commonLabels: { a: "{{ organisation }}\n{{#alerts}}", b: "x".repeat(5000) } });
  expect(text("{{ labels.a }}|{{ labels.b }}", odd)).toBe(`{{ organisation }} {{#alerts}}|${"x".repeat(299)}…`);
});

test("never cuts a link: one that does not fit is left out", () => {
  const long = messageOf({ commonLabels: { alertname: "HighLoad", path: "/é".repeat(200) } });
  const url = text("{{ url }}", long) ?? "";
  expect(url.length).toBeGreaterThan(1000);
  expect(url).toMatch(/&at=2026-11-22T10%3A00%3A00\.000Z$/);
  expect(text("{{ url }} ".repeat(20), long)?.replaceAll(`${url} `, "")).toBe("…");
  const custom = { title: `${"y".repeat(150)} ${url}`, text: `${"x ".repeat(1300)}${url} end` };
  const { text: title, attachments } = JSON.parse(slackBody(long, custom)) as { text: string; attachments: { text: string }[] };
  expect([title, attachments[0]?.text]).toEqual([`${"y".repeat(150)} …`, `${"x ".repeat(1300)}…`]);
});

test("limits the rendered text, however many alerts and placeholders there are", () => {
  const many = messageOf({
    alerts: Array.from({ length: 100 }, () => alertOf({ annotations: { summary: "😀".repeat(5000) } })),
    truncatedAlerts: 900,
  });
  const template = `{{#alerts}}${"{{ annotations.summary }}".repeat(90)}{{/alerts}}${"y".repeat(MAX_TEXT_TEMPLATE_LENGTH - 2300)}`;
  const made = text(template, many) ?? "";
  expect(made.length).toBeLessThanOrEqual(MAX_MESSAGE_TEXT_LENGTH);
  expect([made.isWellFormed(), made.endsWith("…")]).toEqual([true, true]);
  expect(text("{{ count }}", many)).toBe("1000");
  expect(text("{{#alerts}}{{ labels.instance }} {{/alerts}}", many)?.split(" ")).toHaveLength(10);
});

test("renders a heartbeat as the standard text, and a test message as a test", () => {
  const settings = { title: "{{ labels.alertname }} of {{ organisation }}", text: "{{ status }}" };
  expect(renderTemplates(settings, messageOf({ purpose: "heartbeat", alerts: [] }))).toEqual({});
  expect(renderTemplates(settings, messageOf({ purpose: "test" }))).toEqual({ title: "[TEST] HighLoad of Blue", text: "firing" });
  expect(renderTemplates({}, messageOf())).toEqual({ title: undefined, text: undefined });
});

test("evaluates no value that does not fit into the text", () => {
  let reads = 0;
  const summaryOf = () => {
    reads += 1;
    return "x".repeat(2048);
  };
  const annotations = Object.defineProperty({}, "summary", { get: summaryOf, enumerable: true }) as Record<string, string>;
  const alerts = Array.from({ length: 10 }, () => alertOf({ annotations }));
  expect(text(`{{#alerts}}${"{{annotations.summary}}".repeat(95)}{{/alerts}}`, messageOf({ alerts }))).toHaveLength(
    MAX_MESSAGE_TEXT_LENGTH,
  );
  expect(reads).toBeLessThan(30);
});

describe("escapes hostile values for", () => {
  const hostile = messageOf({ commonLabels: { alertname: HOSTILE }, commonAnnotations: { summary: HOSTILE } });
  const custom = renderTemplates({ title: "{{ labels.alertname }}\n<!here>", text: "*a*\n{{ annotations.summary }}" }, hostile);

  test("Slack", () => {
    const body = slackBody(hostile, custom);
    expect(body).not.toMatch(/<(?:!|@|https)/);
    const { text: title, attachments } = JSON.parse(body) as { text: string; attachments: { text: string; mrkdwn_in: string[] }[] };
    expect(title).toContain("&lt;!channel&gt;");
    expect(title).not.toContain("\n");
    expect(attachments[0]?.text).toMatch(/^\*a\*\n&lt;!channel&gt;/);
    expect(attachments[0]?.mrkdwn_in).toEqual([]);
    const long = JSON.parse(slackBody(hostile, { text: "<".repeat(MAX_MESSAGE_TEXT_LENGTH) })) as { attachments: { text: string }[] };
    expect(long.attachments[0]?.text).toMatch(/^(?:&lt;){699}…$/);
  });

  test("an e-mail", () => {
    const { subject, text: body } = buildEmail(hostile, "telemetry.example", custom);
    expect(subject).not.toMatch(/[\r\n\u2028\u202e\0]/);
    expect(body).toMatch(/^\*a\*\n<!channel>/);
    expect(body).toContain('Sent by the channel "on call" of Blue.');
    expect(body).not.toMatch(/^Bcc:/m);
  });

  test("PagerDuty", () => {
    const { body } = pagerDutyEvent(hostile, { routingKey: "R".repeat(32), region: "us", custom });
    const { payload } = JSON.parse(body) as { payload: { summary: string; custom_details: { text: string } } };
    expect(payload.summary).not.toMatch(/[\r\n]/);
    expect(payload.custom_details.text).toMatch(/^\*a\*\n/);
  });
});
