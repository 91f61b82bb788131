// Sends 2,000 rule bodies of a hostile tenant to a real evaluator: each is refused with a clear 400, or is stored, loaded and evaluated.
// Meanwhile the other tenant's rule fires and every reload succeeds. The seed is printed; FUZZ_SEED repeats a run.
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { alertingApp, type AlertingApp } from "../fixtures/alerting-app.ts";
import { eventually } from "../fixtures/processes.ts";

const BODIES = 2000;
const BATCH = 100;
const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000);

const TEMPLATES = [
  "%{HOME}",
  "%{PATH}",
  "%{",
  "{{ $value }}",
  "{{ $labels.x }}",
  "{{ .Nope }}",
  "{{ range . }}",
  "{{ end }}",
  "}}",
  "{{",
  '{{ query "up" }}',
];
const CHARACTERS = [
  '"',
  "'",
  "`",
  "\\",
  "\\u0000",
  "\\ud83d",
  "\n",
  "\r\n",
  "\t",
  "\u0000",
  "\u0007",
  "\u007f",
  "\u0085",
  "\u2028",
  "\ufeff",
  "\ufffe",
  "\ud83d",
  "😀",
  "ß",
  "\u202e",
  "e\u0301",
];
const LOOK_ALIKES = [
  "---\n",
  "...\n",
  "- a: b",
  "&x",
  "*x",
  "!!binary",
  "<<: *x",
  "# c",
  ": ",
  ", ",
  "[",
  "]",
  "{",
  "}",
  "|",
  ">",
  "~",
  "null",
  "yes",
  "$(id)",
  "${HOME}",
  "$HOME",
  "groups:\n- name: x\n  rules: []",
  '"}], "x": [{"',
  "' or 1=1 --",
  "../../etc/passwd",
  "x".repeat(300),
];
const snippets = fc.constantFrom(...TEMPLATES, ...CHARACTERS, ...LOOK_ALIKES);
const harmless = fc.constantFrom(
  ...LOOK_ALIKES.filter((one) => !one.includes("\n")),
  "%{HOME}",
  "%{",
  '"',
  "\\",
  "\\u0000",
  "😀",
  "\u2028",
  "\u202e",
  "\ufffe",
  "}}",
  "plain",
);
const text = (maxLength: number) =>
  fc.oneof(
    { arbitrary: fc.array(harmless, { minLength: 1, maxLength }).map((parts) => parts.join("")), weight: 12 },
    { arbitrary: fc.array(snippets, { minLength: 1, maxLength }).map((parts) => parts.join("")), weight: 3 },
    { arbitrary: fc.string({ unit: "binary", minLength: 1, maxLength: 40 }), weight: 1 },
    { arbitrary: fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 }), weight: 1 },
  );
const quoted = text(3).map((value) => `"${value.replace(/[\\"\n\r]/g, "\\$&")}"`);
const selector = fc.oneof(
  fc.constantFrom(
    "up",
    "fuzz_metric",
    '{__name__=~".+"}',
    'fuzz_metric{org_id!=""}',
    "größe",
    "a:b",
    "vector(1)",
    "time()",
    "nosuchfunc(up)",
    "rate(fuzz_metric[5m])",
  ),
  quoted.map((value) => `fuzz_metric{x=${value}}`),
  quoted.map((value) => `label_set(fuzz_metric, "org_id", ${value})`),
  quoted.map((value) => `label_replace(fuzz_metric, "x", ${value}, "x", ".*")`),
  quoted.map((value) => `fuzz_metric{x=~${value}}`),
  fc.constantFrom(
    "histogram_quantile(up)",
    "sum(fuzz_metric) by (x)",
    "topk(99999999, fuzz_metric)",
    "max_over_time(fuzz_metric[1h:1s])",
    'count_values("x", fuzz_metric)',
  ),
);
const operator = fc.constantFrom(
  ">",
  "<",
  "==",
  "!=",
  ">=",
  "<=",
  "> bool",
  "and",
  "or",
  "unless",
  "+",
  "if",
  "default",
  "> on(x)",
  "> ignoring(x) group_left()",
);
const expression = fc.oneof(
  {
    arbitrary: fc
      .tuple(selector, fc.constantFrom(">", "<", "!=", ">="), fc.constantFrom("0", "1e3", "-1", "fuzz_metric"))
      .map((parts) => parts.join(" ")),
    weight: 4,
  },
  { arbitrary: fc.tuple(selector, operator, selector, operator, selector).map((parts) => parts.join(" ")), weight: 2 },
  { arbitrary: selector.map((one) => `absent(${one})`), weight: 1 },
  { arbitrary: text(6), weight: 1 },
  { arbitrary: fc.integer({ min: 100, max: 20_000 }).map((length) => `fuzz_metric{x="${"y".repeat(length)}"} > 0`), weight: 1 },
  { arbitrary: fc.integer({ min: 10, max: 1500 }).map((depth) => `${"(".repeat(depth)}fuzz_metric > 0${")".repeat(depth)}`), weight: 1 },
);
const texts = fc.dictionary(
  fc.oneof({ arbitrary: fc.constantFrom("team", "a", "summary", "x"), weight: 4 }, { arbitrary: text(2), weight: 1 }),
  text(4),
  { maxKeys: 3 },
);
const bodies = fc.record(
  {
    name: text(5),
    severity: fc.oneof({ arbitrary: fc.constantFrom("critical", "warning", "info"), weight: 20 }, { arbitrary: text(2), weight: 1 }),
    expr: expression,
    for: fc.oneof({ arbitrary: fc.constantFrom("0s", "0", "5m", "1h30m", "1ms"), weight: 10 }, { arbitrary: text(2), weight: 1 }),
    enabled: fc.constant(true),
    labels: texts,
    annotations: texts,
  },
  { requiredKeys: ["name", "severity", "expr"] },
);

interface Loaded {
  lastEvaluation: string;
  labels: Record<string, string>;
}

async function loadedRules(service: AlertingApp): Promise<Map<string, Loaded>> {
  const answer = (await (await fetch(`${service.evaluator.url}/api/v1/rules?exclude_alerts=true`)).json()) as {
    data: { groups: { rules: Loaded[] }[] };
  };
  return new Map(answer.data.groups.flatMap((group) => group.rules).map((rule) => [rule.labels["rule_id"] ?? "", rule]));
}

test(`${BODIES} random rule bodies never affect the other tenant or the evaluator (FUZZ_SEED=${seed})`, async () => {
  await using service = await alertingApp();
  const victim = `${await service.makeOrg("victim")}:admin`;
  const hostile = `${await service.makeOrg("hostile")}:admin`;
  const [victimOrg = "", hostileOrg = ""] = [victim, hostile].map((bearer) => bearer.split(":")[0]);
  const alert = { name: "must go on firing", severity: "critical", expr: "victim_metric == 1", for: "2s" };
  const { id } = (await service.call("POST", "/rules", victim, alert)).json();
  const keepFiring = async (): Promise<{ state: string }> => {
    await service.push(victimOrg, "victim_metric 1");
    await service.push(hostileOrg, 'fuzz_metric{x="a"} 1\nfuzz_metric{x="b"} 2');
    return (await service.call("GET", `/rules/${id}/status`, victim)).json();
  };
  await eventually("the victim's rule fires", async () => (await keepFiring()).state === "firing");

  const counts = { accepted: 0, refused: 0, other: 0 };
  const states = new Set<string>();
  const all = fc.sample(bodies, { seed, numRuns: BODIES });
  for (let at = 0; at < all.length; at += BATCH) {
    const answers = await Promise.all(all.slice(at, at + BATCH).map((body) => service.call("POST", "/rules", hostile, body)));
    for (const [n, answer] of answers.entries()) {
      if (answer.statusCode === 201) counts.accepted += 1;
      else if ([400, 409].includes(answer.statusCode)) counts.refused += 1;
      else counts.other += 1;
      const clear = answer.statusCode === 201 || /^[\w.]+: ./s.test(answer.json().message ?? "") || answer.json().error === "invalid_field";
      expect([answer.statusCode, clear, JSON.stringify(all[at + n]).slice(0, 500), answer.body]).toEqual([
        expect.toBeOneOf([201, 400, 409]),
        true,
        expect.anything(),
        expect.anything(),
      ]);
    }
    const accepted = answers.filter((answer) => answer.statusCode === 201).map((answer) => answer.json<{ id: string }>().id);
    await eventually(
      `the ${accepted.length} rules accepted of batch ${at / BATCH} are evaluated`,
      async () => {
        states.add((await keepFiring()).state);
        const loaded = await loadedRules(service);
        return accepted.every((one) => !(loaded.get(one)?.lastEvaluation ?? "0001").startsWith("0001"));
      },
      30_000,
    );
    await Promise.all(accepted.map((one) => service.call("DELETE", `/rules/${one}`, hostile)));
  }
  console.log(`${counts.accepted} accepted, all loaded and evaluated; ${counts.refused} refused; seed ${seed}`);
  expect(counts.other).toBe(0);
  expect(counts.accepted).toBeGreaterThan(BODIES / 10);
  expect([...states]).toEqual(["firing"]);
  const own = await (await fetch(`${service.evaluator.url}/metrics`)).text();
  expect(own).toMatch(/^vmalert_config_last_reload_errors_total 0$/m);
  expect(own).toMatch(/^vmalert_config_last_reload_successful 1$/m);
  expect(service.evaluator.child.restarts).toBe(0);
});
