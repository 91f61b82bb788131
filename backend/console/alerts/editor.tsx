// The editor of a rule. The backend validates the expression while the user types, and a chart shows its values of the last day.
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { Chart } from "../metrics/chart.tsx";
import { queryRange } from "../metrics/prometheus.ts";
import { PromqlField } from "../metrics/promql-field.tsx";
import { ThresholdChart } from "../metrics/threshold-chart.tsx";
import { formatValue, unitOfQuery } from "../metrics/unit.ts";
import { useLoaded, useDebounced, call, saveResource, formReader, mayWrite } from "../state/index.ts";
import { splitComparison, splitLines, withQuery, withThreshold, otherFilters, parsePairs, formatPairs, RULES } from "./console-rule.ts";
import type { LogCondition, LogFilter, Rule } from "./console-rule.ts";
import { RECEIVER, ReceiverField, saveReceiver, useReceivers } from "./receiver.tsx";
import { Problem, Checkbox, Field, Select, TextArea, SavingForm, visible } from "../parts/index.ts";

const DAY_MS = 86_400_000;
const MAX_DRAWN = 20;

export function RuleEditor({ rule, onSaved }: { rule: Rule; onSaved: (saved: Rule) => string }) {
  const expr = useSignal(rule.expr);
  const labels = useSignal(labelsText(rule.name, rule.severity, formatPairs(rule.labels)));
  const receivers = useReceivers(rule.name);
  const save = async (form: HTMLFormElement): Promise<string | undefined> => {
    const { expr: typedExpr, ...typed } = typedRule(form, expr.peek());
    const body = { ...typed, ...(rule.logs ? { logs: typedCondition(form, rule.logs) } : { expr: typedExpr }) };
    const saved = await saveResource<Rule>(RULES, rule.id, body);
    const receiver = formReader(form)(RECEIVER);
    if (receivers.value.peek()) await saveReceiver(typed.name, receiver, receivers.value.peek()?.own);
    receivers.reload();
    return onSaved(saved);
  };
  return (
    <SavingForm
      label={rule.id ? "Save" : "Create"}
      saved="Saved. The rule is evaluated within 5 seconds."
      save={save}
      takesFocus={!rule.id}
      refusal={mayWrite.value ? undefined : "To change rules, you need the role admin."}
    >
      <div class="stack" onInput={({ currentTarget }) => (labels.value = typedLabels(currentTarget.closest("form")))}>
        <Field label="Name" name="name" required maxLength={200} defaultValue={rule.name} />
        {rule.logs ? (
          <Counted logs={rule.logs} expr={rule.expr} />
        ) : (
          <>
            <div class="label">
              Expression
              <PromqlField label="Expression" value={expr.value} onChange={(text) => (expr.value = text)} />
            </div>
            <Validation expr={expr.value} isTyped={expr.value !== rule.expr} onExpr={(text) => (expr.value = text)} />
          </>
        )}
        <Choices rule={rule} />
      </div>
      <ReceiverField of={receivers} labels={labels.value} />
    </SavingForm>
  );
}

/** Labels of an alert of the rule, without those of the series: one name=value per line. */
function labelsText(name: string, severity: string, labels: string): string {
  return `alertname=${name}\nseverity=${severity}\n${labels}`;
}

function typedLabels(form: HTMLFormElement | null): string {
  const text = form ? formReader(form) : () => "";
  return labelsText(text("name"), text("severity"), text("labels"));
}

/** Which log records are counted, and how many of them fire the rule. Other filters than the query stay as they are. */
function Counted({ logs: { filter, window, operator, threshold, by = [] }, expr }: { logs: LogCondition; expr: string }) {
  return (
    <>
      {expr !== "" && (
        <p class="quiet">
          <code>{visible(expr)}</code>
        </p>
      )}
      <TextArea label="Log query" name="query" rows={2} defaultValue={filter?.query} />
      <OtherFilters of={filter} />
      <div class="row">
        <Select label="Number of records" name="operator" of={[">", ">=", "<", "<=", "==", "!="]} initial={operator} />
        <Field label="Threshold" name="threshold" type="number" min={0} required defaultValue={String(threshold ?? 10)} />
        <Field label="Window" name="window" size={6} required defaultValue={window ?? "5m"} />
      </div>
      <TextArea
        label="Group by, one field per line (at most two): source, level, host_id, node or label.key"
        name="by"
        rows={2}
        defaultValue={by.join("\n")}
      />
    </>
  );
}

export function OtherFilters({ of }: { of: LogFilter | undefined }) {
  const others = otherFilters(of);
  if (others === "") return null;
  return (
    <p class="quiet">
      And <code>{visible(others)}</code>
    </p>
  );
}

function typedCondition(form: HTMLFormElement, former: LogCondition): LogCondition {
  const text = formReader(form);
  return {
    ...former,
    filter: withQuery(former.filter, text("query")),
    operator: text("operator") as LogCondition["operator"],
    threshold: Number(text("threshold")),
    window: text("window"),
    by: splitLines(text("by")),
  };
}

function Choices({ rule }: { rule: Rule }) {
  return (
    <>
      <div class="row">
        <Select label="Severity" name="severity" of={["critical", "warning", "info"]} initial={rule.severity} />
        <Field label="For" name="for" size={6} defaultValue={rule.for ?? "0s"} />
        <Checkbox label="enabled" name="enabled" defaultChecked={rule.enabled !== false} />
      </div>
      <TextArea label="Labels, one name=value per line" name="labels" rows={2} defaultValue={formatPairs(rule.labels)} />
      <TextArea label="Annotations, one name=value per line" name="annotations" rows={2} defaultValue={formatPairs(rule.annotations)} />
    </>
  );
}

function typedRule(form: HTMLFormElement, expr: string): Rule {
  const text = formReader(form);
  return {
    name: text("name"),
    expr,
    for: text("for") || "0s",
    severity: text("severity") as Rule["severity"],
    enabled: text("enabled") !== "",
    labels: parsePairs(text("labels")),
    annotations: parsePairs(text("annotations")),
  };
}

type ValidationResult = ApiResponses["POST /alerting/rules/validate"];

/** Validates the expression after a pause in typing. What a chart has filled in is no mistake of the user. */
function Validation({ expr, isTyped, onExpr }: { expr: string; isTyped: boolean; onExpr: (expr: string) => void }) {
  const debounced = useDebounced(expr);
  const checkedExpression = debounced.trim();
  const result = useLoaded(checkedExpression === "" ? undefined : `validate ${checkedExpression}`, async (signal) => {
    const body: Rule = { name: "preview", expr: checkedExpression, severity: "info" };
    return await call<ValidationResult>(`${RULES}/validate`, { method: "POST", body, signal });
  });
  if (checkedExpression === "") return null;
  const validation = result.value.value;
  // A result for an earlier expression is not shown.
  const isCurrent = debounced === expr && !result.busy.value;
  const resultText =
    result.error.value ??
    (validation?.valid ? `Valid. It currently matches ${validation.matching_series ?? 0} series.` : validation?.message);
  return (
    <>
      <p role="status" class={isTyped && isCurrent && validation?.valid === false ? "problem" : "quiet"}>
        {(isCurrent && resultText) || "…"}
      </p>
      {validation?.valid && <Preview expr={checkedExpression} onExpr={onExpr} />}
    </>
  );
}

/** Draws the compared value over a day with the threshold, which can be dragged, or the times at which the expression is true. */
function Preview({ expr, onExpr }: { expr: string; onExpr: (expr: string) => void }) {
  const compared = splitComparison(expr);
  const drawn = compared?.left ?? expr;
  const loaded = useLoaded(`preview ${drawn}`, async (signal) => {
    const range = { fromMs: Date.now() - DAY_MS, toMs: Date.now(), last: "24h" };
    return { range, series: (await queryRange(drawn, range, signal)).slice(0, MAX_DRAWN) };
  });
  const { range, series } = loaded.value.value ?? {};
  if (!range || !series || series.length === 0) return <Problem message={loaded.error.value} />;
  const chart = { series, range, unit: unitOfQuery(drawn), hasLegend: false };
  return (
    <figure>
      <figcaption class="quiet">
        Last 24 hours{compared ? `, threshold ${formatValue(compared.threshold, chart.unit)}: drag it` : ": when the condition was met"}
      </figcaption>
      {compared ? (
        <ThresholdChart {...chart} threshold={compared.threshold} onThreshold={(value) => onExpr(withThreshold(expr, value))} />
      ) : (
        <Chart {...chart} />
      )}
    </figure>
  );
}
