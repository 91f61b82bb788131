// Attacks through what an administrator may write for alerts: matchers, and texts of messages.
import type { Attack } from "./attack.ts";

const HOSTILE = ["(a?){200}a{200}", "(((a*)*)*)*b", `${"(a|".repeat(200)}b${")".repeat(200)}`, ".*".repeat(400)];

export const hostileMatchers: Attack = {
  group: "more",
  what: "routes, silences and inhibition rules whose twenty matchers are the costliest regular expressions, over 200 firing alerts",
  everyMs: 2000,
  async prepare(attacker) {
    const { adminToken: bearer } = attacker.target;
    const expr = `label_replace(vector(1), "wide", "${"a".repeat(2000)}", "", "") > 0`;
    const body = { name: `wide ${attacker.serial()}`, severity: "info", expr };
    await attacker.call({ method: "POST", path: "/alerting/rules", bearer, body });
  },
  async wave(attacker, turn) {
    const { adminToken: bearer } = attacker.target;
    const value = HOSTILE[turn % HOSTILE.length] ?? "";
    const endsAt = new Date(Date.now() + 3_600_000).toISOString();
    const silenced = { matchers: Array.from({ length: 20 }, () => ({ name: "wide", value, isRegex: true })), endsAt, comment: "hostile" };
    const routed = { matchers: Array.from({ length: 20 }, () => ({ label: "wide", op: "=~", value })) };
    await attacker.many(5, 5, async () => {
      await attacker.call({ method: "POST", path: "/alerting/silences", bearer, body: silenced });
      await attacker.call({ method: "POST", path: "/alerting/routes", bearer, body: routed });
      const inhibited = { name: attacker.serial(), source_matchers: routed.matchers, target_matchers: routed.matchers };
      await attacker.call({ method: "POST", path: "/alerting/inhibit-rules", bearer, body: inhibited });
      const filter = encodeURIComponent(`wide=~"${value}"`);
      await attacker.call({ method: "GET", path: `/alerting/alertmanager/api/v2/alerts?filter=${filter}`, bearer });
    });
  },
};

export const hostileTemplates: Attack = {
  group: "more",
  what: "channels whose own texts repeat every placeholder in 4,000 characters, or never close one, tested ten at once",
  everyMs: 2000,
  async wave(attacker, turn) {
    const { adminToken: bearer } = attacker.target;
    const texts = ["{{#alerts}}".repeat(360), "{{ labels.a }}".repeat(280), "{{".repeat(2000), "{{ ".repeat(1300), "/".repeat(4000)];
    await attacker.many(10, 10, async (index) => {
      const settings = { url: "https://hooks.slack.com/services/x", text: texts[(turn + index) % texts.length] };
      await attacker.call({
        method: "POST",
        path: "/alerting/channels",
        bearer,
        body: { name: attacker.serial(), kind: "slack", settings },
      });
    });
  },
};
