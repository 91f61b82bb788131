// The form of a service level objective, and what it counts as text. Invariant: what has no field, such as filters of log records other than
// the query, stays as it is.
import type { ApiBodies, ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { formatPairs, type LogFilter, otherFilters, parsePairs, withQuery } from "../alerts/console-rule.ts";
import { OtherFilters } from "../alerts/editor.tsx";
import { Checkbox, ChoiceField, Field, Select, TextArea, SavingForm } from "../parts/index.ts";
import { operationsOf, useServices } from "../services/known-services.ts";
import { saveResource, address, formReader } from "../state/index.ts";

export const SLOS = "/alerting/slos";

type Body = ApiBodies["POST /alerting/slos"];
export type Slo = Omit<ApiResponses["POST /alerting/slos"], "created_at">;
type Indicator = Body["indicator"];

const KINDS = [
  ["availability", "calls without an error"],
  ["latency", "calls that are fast enough"],
  ["promql", "events that metrics count"],
  ["logs", "log records"],
] as const;
type Kind = (typeof KINDS)[number][0];
const WINDOWS = [
  ["7d", "7 days"],
  ["28d", "28 days"],
  ["30d", "30 days"],
  ["90d", "90 days"],
  ["month", "calendar month"],
] as const;

export function SloForm({ slo, onSaved }: { slo?: Slo | undefined; onSaved?: () => void }) {
  const initial: Indicator = slo?.indicator ?? {};
  const kind = useSignal<Kind>(KINDS.find(([name]) => initial[name])?.[0] ?? "availability");
  const save = async (form: HTMLFormElement): Promise<string> => {
    const saved = await saveResource<Slo>(SLOS, slo?.id, typedSlo(form, kind.peek(), initial));
    onSaved?.();
    return address("slos", {}, saved.id);
  };
  const isCalls = kind.value === "availability" || kind.value === "latency";
  return (
    <SavingForm label={slo ? "Save" : "Create"} save={save} takesFocus={!slo}>
      <Field label="Name" name="name" required maxLength={100} defaultValue={slo?.name} />
      <Select label="Counts" of={KINDS} value={kind.value} onChoose={(chosen) => (kind.value = chosen)} />
      {isCalls ? (
        <CallFields initial={initial} isLatency={kind.value === "latency"} />
      ) : (
        <RatioFields initial={initial} kind={kind.value} key={kind.value} />
      )}
      <div class="row">
        <Field
          label="Percent good"
          name="objective"
          type="number"
          min={0.001}
          max={99.999}
          step="any"
          required
          defaultValue={String(slo?.objective ?? 99.9)}
        />
        <Select label="In" name="window" of={WINDOWS} initial={slo?.window ?? "30d"} />
      </div>
      {kind.value !== "promql" && (
        <Checkbox label="a minute without events counts as a bad one" name="no_traffic" defaultChecked={slo?.no_traffic === "bad"} />
      )}
      <Checkbox label="alert if the error budget is used too fast" name="alerts" defaultChecked={slo?.alerts !== false} />
      <TextArea label="Labels of the alerts, one name=value per line" name="labels" rows={2} defaultValue={formatPairs(slo?.labels)} />
      <TextArea label="Description" name="description" rows={2} maxLength={1000} defaultValue={slo?.description} />
    </SavingForm>
  );
}

function CallFields({ initial: { availability, latency }, isLatency }: { initial: Indicator; isLatency: boolean }) {
  const { service, operation } = availability ?? latency ?? {};
  const typed = useSignal(service ?? "");
  const services = useServices().value.value ?? [];
  return (
    <>
      <ChoiceField
        label="Service"
        name="service"
        required
        initial={service ?? ""}
        choices={services.map((known) => known.service)}
        onType={(text) => (typed.value = text)}
      />
      <ChoiceField
        label="Operation (empty: all)"
        name="operation"
        initial={operation ?? ""}
        choices={operationsOf(services, typed.value)}
      />
      {isLatency && <Field label="Good if it takes at most" name="below" size={8} required defaultValue={latency?.below ?? "300ms"} />}
    </>
  );
}

function RatioFields({ initial: { promql, logs }, kind }: { initial: Indicator; kind: Kind }) {
  const which = (promql ?? logs)?.good ? "good" : "bad";
  const field = (part: "total" | "good" | "bad", name: string, label: string) =>
    kind === "promql" ? (
      <TextArea label={label} name={name} rows={3} required placeholder={EXAMPLES[part]} defaultValue={promql?.[part]} />
    ) : (
      <>
        <TextArea label={label} name={name} rows={2} placeholder="source:gateway" defaultValue={logs?.[part]?.query} />
        <OtherFilters of={logs?.[part]} />
      </>
    );
  return (
    <>
      {field("total", "total", kind === "promql" ? "All events, in PromQL with the range [$window]" : "All records: log query")}
      <Select label="Counted of them" name="which" of={["bad", "good"]} initial={which} />
      {field(which, "part", kind === "promql" ? "These events" : "These records: log query")}
    </>
  );
}

const EXAMPLES = {
  total: "increase(http_requests_total[$window])",
  good: 'increase(http_requests_total{code!~"5.."}[$window])',
  bad: 'increase(http_requests_total{code=~"5.."}[$window])',
};

/** Throws an Error whose message is shown to the user. */
function typedSlo(form: HTMLFormElement, kind: Kind, former: Indicator): Body {
  const text = formReader(form);
  return {
    name: text("name"),
    description: text("description"),
    objective: Number(text("objective")),
    window: text("window") as NonNullable<Body["window"]>,
    indicator: typedIndicator(text, kind, former),
    no_traffic: text("no_traffic") === "" ? "ignore" : "bad",
    alerts: text("alerts") !== "",
    labels: parsePairs(text("labels")),
  };
}

function typedIndicator(text: (name: string) => string, kind: Kind, { logs }: Indicator): Indicator {
  const which = text("which") as "good" | "bad";
  if (kind === "promql") return { promql: { total: text("total"), [which]: text("part") } };
  if (kind === "logs")
    return { logs: { total: withQuery(logs?.total, text("total")), [which]: withQuery(logs?.good ?? logs?.bad, text("part")) } };
  const [service, operation] = [text("service").trim(), text("operation").trim()];
  const calls = { service, ...(operation && { operation }) };
  return kind === "latency" ? { latency: { ...calls, below: text("below").trim() } } : { availability: calls };
}

/** What an indicator counts, such as `calls of cart without an error`. */
export function indicatorText({ availability, latency, promql, logs }: Indicator): string {
  const calls = availability ?? latency;
  if (calls) return `calls of ${calls.service} ${calls.operation ?? ""} ${latency ? `within ${latency.below}` : "without an error"}`;
  const { total, good, bad } = promql ?? logs ?? {};
  return `${good ? `good: ${partText(good)}` : `bad: ${partText(bad)}`}; all: ${partText(total)}`;
}

function partText(part: string | LogFilter = {}): string {
  if (typeof part === "string") return part;
  return `${part.query ?? ""} ${otherFilters(part)}`.trim() || "all records";
}
