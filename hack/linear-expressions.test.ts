// No regular expression of the backend and the agent may take more than linear time: such an expression would block all clients as soon as
// one of them sends the text for it. scslre finds each case in which two repetitions can match the same characters.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseSync, Visitor } from "oxc-parser";
import { analyse } from "scslre";
import { expect, test } from "vitest";
import { ROOT } from "./bundle.ts";

const SETTING = "the text is a setting of the operator";
const BROWSER = "runs in the reader's own browser or terminal";

/** By file and expression, why its texts can be trusted or are short. */
const ACCEPTED: Readonly<Record<string, string>> = {
  "agent/commands/diagnose/node.ts: /\\d+\\.\\d+\\.\\d+/": "the text is the version of the kernel",
  "agent/collector/files/log-paths.ts: /\\[[!^]?[^\\]]+\\]|\\*+|\\?|[\\\\^$.|+(){}[\\]]/g": SETTING,
  "common/duration.ts: /(\\d+(?:\\.\\d+)?)(ms|[smhdwyi])/gi": "EXPRESSION has accepted the text, so each match succeeds",
  "backend/alerting/remote.ts: /\\/+$/": SETTING,
  "backend/cli/api-client.ts: /\\/+$/": BROWSER,
  'backend/cli/api-client.ts: /<([^>]*)>;\\s*rel="?next"?/': BROWSER,
  "backend/console/alerts/console-rule.ts: /^([\\s\\S]+?)\\s*(?:>=|<=|==|!=|>|<)\\s*(-?[\\d.]+(?:e[+-]?\\d+)?)\\s*$/i": BROWSER,
  'backend/console/state/api.ts: /<([^>]+)>\\s*;[^,]*\\brel="?next\\b/': BROWSER,
  "backend/console/state/typed-range.ts: /\\s+to\\s+|\\s*\\.\\.\\s*|\\s+[–-]\\s+/": BROWSER,
  "backend/engines/engine-http.ts: /\\/+$/": SETTING,
  "backend/engines/relational/migrate.ts: /^\\s*--.*$/gm": "the text is a migration of ours",
  "backend/engines/vmalert/vmalert-client.ts: /\\/+$/": SETTING,
  "backend/engines/vmalert/embedded-vmalert.ts: /\\/+$/": SETTING,
  "backend/storage/logs/pattern.ts: /\\\\Q.*?(?:\\\\E|$)|\\\\x\\{\\w*\\}|\\\\[pP](?:\\{\\^?\\w*\\}|.)|\\\\.|\\[\\^?\\]?(?:\\[:\\^?\\w*:\\]|\\\\.|[^\\]\\\\])*(?:\\]|\\\\?$)|\\{\\d+(?:,\\d*)?\\}|./gsu":
    "the text is an expression of at most 2,000 characters, for which the square is some milliseconds",
  "backend/query/loki/template-values.ts: /[.,]?0*$/": "the text has ten characters",
  "backend/storage/metrics/upstream.ts: /\\/+$/": SETTING,
  "backend/notification/channels/message-template.ts: /\\/+$/": SETTING,
  "backend/ingest/otlp/value.ts: /=+$/": "the expression before it allows two = at the end",
  "backend/settings-kinds.ts: /\\/+$/": SETTING,
};

interface Expression {
  readonly file: string;
  readonly literal: string;
  readonly polynomial: string | undefined;
}

function expressionsIn(file: string): Expression[] {
  const { program } = parseSync(file, readFileSync(join(ROOT, file), "utf8"));
  const found: Expression[] = [];
  new Visitor({
    Literal(node) {
      if (!("regex" in node)) return;
      const { pattern, flags } = node.regex;
      const [report] = analyse({ source: pattern, flags }).reports;
      found.push({ file, literal: `/${pattern}/${flags}`, polynomial: report && (report.exponential ? "exponential" : report.type) });
    },
  }).visit(program);
  return found;
}

const files = globSync("{agent,backend,common}/**/*.ts", {
  cwd: ROOT,
  exclude: ["**/node_modules/**", "**/*.test.ts", "**/*.fixture.ts", "**/kernel/**"],
});
const expressions = files.flatMap(expressionsIn);

test("no expression takes more than linear time", () => {
  expect(expressions.length).toBeGreaterThan(300);
  const slow = expressions.filter(({ file, literal, polynomial }) => polynomial !== undefined && !(`${file}: ${literal}` in ACCEPTED));
  expect(slow.map(({ file, literal, polynomial }) => `${file}: ${literal} (${polynomial})`)).toEqual([]);
});

test("the accepted expressions still exist", () => {
  const present = new Set(expressions.map(({ file, literal }) => `${file}: ${literal}`));
  expect(Object.keys(ACCEPTED).filter((expression) => !present.has(expression))).toEqual([]);
});

test("finds the expressions that once blocked the backend", () => {
  for (const source of ['\\{\\{("(?:[^"\\\\])*"|(?!\\}\\})[^])*?\\}\\}', "^\\d[\\d_]*\\.?[\\d_]*$"])
    expect(analyse({ source, flags: "" }).reports.length).toBeGreaterThan(0);
});
