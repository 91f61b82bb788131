// Checks and, if accepted, evaluates random inputs that the backend reads in its main process, where their cost is limited.
import { ApiError } from "../../../backend/errors.ts";
import { MAX_TEXT_TEMPLATE_LENGTH, MAX_TITLE_TEMPLATE_LENGTH } from "../../../backend/notification/notification-limits.ts";
import { checkMatchers, compileMatchers, type Labels, type Matcher, readMatcher } from "../../../backend/notification/model/matchers.ts";
import { renderTemplates, findTemplateProblem } from "../../../backend/notification/channels/message-template.ts";
import { alertOf, HOSTILE, messageOf } from "../../../backend/notification/model/message.fixture.ts";
import { filterOf } from "../../../backend/query/native/log-filter-parameters.ts";
import { recordConditions } from "../../../backend/storage/logs/filter.ts";
import { refuseCostly } from "../../../backend/storage/metrics/query-cost.ts";
import { TEXTS } from "../programs.ts";
import { Texts } from "./texts.ts";

export interface MainProgram {
  readonly kind: "matchers" | "message template" | "log filter" | "promql";
  readonly text: string;
  /** Throws ApiError if it is refused. */
  readonly run: () => void;
}

const LABELS: readonly Labels[] = [
  {},
  { instance: "a".repeat(1000), a: `${"ab".repeat(499)}c` },
  { alertname: HOSTILE.repeat(20), a: "\u{1F600}".repeat(400) },
];
/** The longest values that alerts may have (posted-alerts.ts). */
const [LABEL, ANNOTATION] = [HOSTILE.repeat(20).slice(0, 1024), HOSTILE.repeat(30).slice(0, 2048)];
const MESSAGE = messageOf({
  commonLabels: { a: LABEL, b: LABEL },
  alerts: Array.from({ length: 100 }, () => alertOf({ labels: { a: LABEL }, annotations: { summary: ANNOTATION } })),
});

export function mainProgram(seed: number): MainProgram {
  const texts = new Texts(seed ^ 0x5bd1e995);
  return texts.pick([matchersProgram, templateProgram, filterProgram, promqlProgram])(texts);
}

function matchersProgram(texts: Texts): MainProgram {
  const lines = texts.matchers();
  const run = (): void => {
    const matchers = lines.map(readMatcher).filter((matcher): matcher is Matcher => matcher !== undefined);
    if (matchers.length < lines.length) throw new ApiError("invalid_field", "matchers: not readable");
    checkMatchers(matchers, { anyAlert: texts.chance(0.5) });
    const test = compileMatchers(matchers);
    for (const labels of LABELS) test(labels);
  };
  return { kind: "matchers", text: lines.join("\n"), run };
}

function templateProgram(texts: Texts): MainProgram {
  const place = texts.pick(["title", "text"] as const);
  const text = texts.template().slice(0, place === "title" ? MAX_TITLE_TEMPLATE_LENGTH : MAX_TEXT_TEMPLATE_LENGTH);
  const run = (): void => {
    const reason = findTemplateProblem(text, place);
    if (reason !== undefined) throw new ApiError("invalid_field", reason);
    const made = renderTemplates({ [place]: text }, MESSAGE)[place] ?? "";
    if (made.length > 8100 || !made.isWellFormed()) throw new Error(`a message of ${made.length} characters`);
  };
  return { kind: "message template", text, run };
}

function filterProgram(texts: Texts): MainProgram {
  const parameters = {
    regex: texts.chance(0.5) ? [] : Array.from({ length: 1 + Math.floor(texts.next() ** 2 * 5) }, () => texts.expression(2)),
    not_regex: texts.chance(0.5) ? [] : texts.expression(1),
    q: texts.mutated(texts.pick(TEXTS).repeat(1000)),
    query: texts.logQuery().slice(0, texts.pick([1000, 4001])),
    [`label.${texts.pick(TEXTS)}`]: texts.mutated("a=b"),
  };
  return { kind: "log filter", text: JSON.stringify(parameters), run: () => void recordConditions(filterOf(parameters)) };
}

function promqlProgram(texts: Texts): MainProgram {
  const text = texts.promql();
  const evaluation = { points: texts.pick([1, 60, 11_000]), stepMs: texts.pick([1, 15_000, 3_600_000]) };
  return { kind: "promql", text, run: () => refuseCostly(text, evaluation) };
}
