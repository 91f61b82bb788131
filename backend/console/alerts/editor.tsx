// The editor of a rule. The backend validates the expression while the user types, and a chart shows its values of the last day.
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { Chart } from "../metrics/chart.tsx";
import { queryRange } from "../metrics/prometheus.ts";
import { PromqlField } from "../metrics/promql-field.tsx";
import { useLoaded, useSettled } from "../state/loaded.ts";
import { address } from "../state/route.ts";
import { comparisonOf, linesRead, type LogCondition, pairsRead, pairsWritten, RULES, type Rule } from "./rule.ts";
import { Options, Problem } from "../parts/common.tsx";
import { SavingForm } from "../parts/saving-form.tsx";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { typedIn } from "../state/sending.ts";
import { mayWrite } from "../state/session.ts";

const DAY_MS = 86_400_000;
const MOST_DRAWN = 20;

export function RuleEditor({ rule, onSaved }: { rule: Rule; onSaved: () => void }) {
  const expr = useSignal(rule.expr);
  const save = async (form: HTMLFormElement): Promise<string | undefined> => {
    const { expr: written, ...typed } = typedRule(form, expr.peek());
    const body = { ...typed, ...(rule.logs ? { logs: typedCondition(form, rule.logs) } : { expr: written }) };
    const saved = await call<Rule>(rule.id ? `${RULES}/${rule.id}` : RULES, { method: rule.id ? "PUT" : "POST", body });
    onSaved();
    return saved.id && address("alerts", { rule: saved.id });
  };
  return (
    <SavingForm
      label={rule.id ? "Save" : "Add"}
      saved="Saved. It is evaluated within 5 seconds."
      save={save}
      refusal={mayWrite.value ? undefined : "Changing rules needs the role admin."}
    >
      <label>
        Name
        <input name="name" required maxLength={200} defaultValue={rule.name} />
      </label>
      {rule.logs ? (
        <Counted logs={rule.logs} expr={rule.expr} />
      ) : (
        <>
          <div class="label">
            Expression
            <PromqlField label="Expression" value={rule.expr} onChange={(text) => (expr.value = text)} />
          </div>
          <Validation expr={expr.value} />
        </>
      )}
      <Choices rule={rule} />
    </SavingForm>
  );
}

/** Which log records are counted, and how many of them fire the rule. Other filters than the query stay as they are. */
function Counted({ logs: { filter = {}, window, operator, threshold, by = [] }, expr }: { logs: LogCondition; expr: string }) {
  const others = Object.entries(filter).filter(([name]) => name !== "query");
  return (
    <>
      {expr !== "" && (
        <p class="quiet">
          <code>{visible(expr)}</code>
        </p>
      )}
      <label>
        Log query
        <textarea name="query" rows={2} spellcheck={false} defaultValue={[filter["query"] ?? ""].flat().join(" ")} />
      </label>
      {others.length > 0 && (
        <p class="quiet">
          And <code>{visible(others.map(([name, value]) => `${name}=${[value].flat().join(",")}`).join(" "))}</code>
        </p>
      )}
      <div class="row">
        <label>
          Records
          <select name="operator">
            <Options of={[">", ">=", "<", "<=", "==", "!="]} chosen={operator} />
          </select>
        </label>
        <label>
          Count
          <input name="threshold" type="number" min={0} required defaultValue={String(threshold ?? 10)} />
        </label>
        <label>
          In
          <input name="window" size={6} required defaultValue={window ?? "5m"} />
        </label>
      </div>
      <label>
        Count separately by (one field per line, at most two): source, level, host_id, node or label.key
        <textarea name="by" rows={2} defaultValue={by.join("\n")} />
      </label>
    </>
  );
}

function typedCondition(form: HTMLFormElement, former: LogCondition): LogCondition {
  const text = typedIn(form);
  const { query: _query, ...others } = former.filter ?? {};
  const query = text("query").trim();
  return {
    ...former,
    filter: { ...others, ...(query && { query }) },
    operator: text("operator"),
    threshold: Number(text("threshold")),
    window: text("window"),
    by: linesRead(text("by")),
  };
}

function Choices({ rule }: { rule: Rule }) {
  return (
    <>
      <div class="row">
        <label>
          Severity
          <select name="severity">
            <Options of={["critical", "warning", "info"]} chosen={rule.severity} />
          </select>
        </label>
        <label>
          For
          <input name="for" size={6} defaultValue={rule.for ?? "0s"} />
        </label>
        <label class="check">
          <input name="enabled" type="checkbox" defaultChecked={rule.enabled !== false} /> enabled
        </label>
      </div>
      <label>
        Labels, name=value each line
        <textarea name="labels" rows={2} defaultValue={pairsWritten(rule.labels)} />
      </label>
      <label>
        Annotations, name=value each line
        <textarea name="annotations" rows={2} defaultValue={pairsWritten(rule.annotations)} />
      </label>
    </>
  );
}

function typedRule(form: HTMLFormElement, expr: string): Rule {
  const text = typedIn(form);
  return {
    name: text("name"),
    expr,
    for: text("for") || "0s",
    severity: text("severity") as Rule["severity"],
    enabled: text("enabled") !== "",
    labels: pairsRead(text("labels")),
    annotations: pairsRead(text("annotations")),
  };
}

type ValidationResult = ApiResponses["POST /alerting/rules/validate"];

/** Validates the expression after a pause in typing. */
function Validation({ expr }: { expr: string }) {
  const settled = useSettled(expr);
  const asked = settled.trim();
  const result = useLoaded(asked === "" ? undefined : `validate ${asked}`, async (signal) => {
    const body: Rule = { name: "preview", expr: asked, severity: "info" };
    return await call<ValidationResult>(`${RULES}/validate`, { method: "POST", body, signal });
  });
  if (asked === "") return null;
  const found = result.value.value;
  // A result for an earlier expression is not shown.
  const isCurrent = settled === expr && !result.busy.value;
  const words = result.error.value ?? (found?.valid ? `Valid. It matches ${found.matching_series ?? 0} series now.` : found?.message);
  return (
    <>
      <p role="status" class={isCurrent && found?.valid === false ? "problem" : "quiet"}>
        {(isCurrent && words) || "…"}
      </p>
      {found?.valid && <Preview expr={asked} />}
    </>
  );
}

/** Draws the compared value over a day with the threshold as a line, or the times at which the expression is true. */
function Preview({ expr }: { expr: string }) {
  const compared = comparisonOf(expr);
  const found = useLoaded(`preview ${expr}`, async (signal) => {
    const range = { fromMs: Date.now() - DAY_MS, toMs: Date.now(), last: "24h" };
    return { range, series: await queryRange(compared?.left ?? expr, range, signal) };
  });
  const { range, series } = found.value.value ?? {};
  return (
    <>
      <Problem words={found.error.value} />
      {range && series && series.length > 0 && (
        <figure>
          <figcaption class="quiet">
            Last 24 hours{compared ? `, threshold ${compared.threshold}` : ": when the condition was true"}
          </figcaption>
          <Chart series={series.slice(0, MOST_DRAWN)} fromS={range.fromMs / 1000} toS={range.toMs / 1000} threshold={compared?.threshold} />
        </figure>
      )}
    </>
  );
}
