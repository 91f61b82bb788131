// The page of an alert (`#/alerts/RULE`): its value with the threshold since it fired, its labels and the resource that they name, logs and
// traces of that time, who was notified, and when it fired before. Messages to channels link to it. Invariant: the address contains the
// labels, so the page also shows an alert that has ended; without labels, it shows all alerts of the rule.
import { Bar, Card, ButtonLink, Chip, SenderText, Status, visible, useScreenRange } from "../parts/index.ts";
import { useEffect, useMemo } from "preact/hooks";
import { Chart } from "../metrics/chart.tsx";
import { queryRange } from "../metrics/prometheus.ts";
import { formatValue, unitOfQuery } from "../metrics/unit.ts";
import { formatMatchers, labelsKey, matchersOf } from "../notification/matcher.ts";
import { ROUTED_ALERTS, type RoutedAlert } from "../notification/matchers.tsx";
import { type Delivery, DELIVERIES, listChannels } from "../notification/resources.ts";
import { call, useLoaded, address, choose, route, mayWrite, type AddressRange, ago, currentRange, timestampText } from "../state/index.ts";
import { type Alert, type AlertData, commonLabels, Evidence, type Labels, LabelFacts, Notified, SameRule } from "./alert-parts.tsx";
import { RULES, type Rule, splitComparison } from "./console-rule.ts";
import { RuleHistory } from "./history.tsx";

const REFRESH_MS = 15_000;
const BEFORE_MS = 15 * 60_000;
/** How long after its beginning the page of an alert that has ended shows. */
const AFTER_MS = 3_600_000;
const MAX_DRAWN = 20;

export function AlertPage({ ruleId }: { ruleId: string }) {
  const { query } = route.value;
  const labels = labelsInAddress(query);
  const at = query.get("at") ?? undefined;
  const { range, refresh, refreshKey, rangeKey } = useScreenRange();
  const loaded = useLoaded(`${ruleId} ${JSON.stringify(labels)}${refreshKey}`, async (signal) => await readAlert(ruleId, labels, signal), {
    refreshMs: REFRESH_MS,
  });
  const data = loaded.value.value;
  const startsAt = earliest(data?.alerts) ?? at;
  const isOver = data?.alerts.length === 0;
  // All parts of the page show the time since the alert began, unless the reader chose another one.
  useEffect(() => {
    if (data === undefined || startsAt === undefined || query.get("from") !== null) return;
    const startMs = Date.parse(startsAt);
    const endMs = startMs + AFTER_MS;
    const to = isOver && endMs < Date.now() ? new Date(endMs).toISOString() : undefined;
    choose({ from: new Date(startMs - BEFORE_MS).toISOString(), to }, { replace: true });
  }, [startsAt, isOver]);
  return (
    <section class="screen alert" aria-labelledby="title">
      <Bar title={data?.rule.name ?? "Alert"} onNow={refresh}>
        {data && <State alerts={data.alerts} startsAt={startsAt} atMs={data.atMs} />}
      </Bar>
      <Status of={loaded}>{data && <Parts data={data} labels={labels} ruleId={ruleId} range={range} requestKey={rangeKey} />}</Status>
    </section>
  );
}

function labelsInAddress(query: URLSearchParams): Labels {
  return Object.fromEntries(
    query.getAll("label").flatMap((text): [string, string][] => {
      const at = text.indexOf("=");
      return at > 0 ? [[text.slice(0, at), text.slice(at + 1)]] : [];
    }),
  );
}

function hasLabels(labels: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([name, value]) => labels[name] === value);
}

function earliest(alerts: readonly Alert[] = []): string | undefined {
  return alerts.map(({ activeAt }) => activeAt).toSorted()[0];
}

async function readAlert(ruleId: string, labels: Labels, signal: AbortSignal): Promise<AlertData> {
  const [rules, { data }, routed, deliveries, channels] = await Promise.all([
    call<Rule[]>(RULES, { signal }),
    call<{ data: { alerts: Alert[] } }>("/query/prometheus/api/v1/alerts", { signal }),
    call<RoutedAlert[]>(ROUTED_ALERTS, { signal }),
    call<Delivery[]>(DELIVERIES, { signal }),
    listChannels(signal),
  ]);
  const rule = rules.find(({ id }) => id === ruleId);
  if (!rule) throw new Error("The rule of this alert does not exist any more.");
  const alerts = data.alerts.filter((alert) => alert.rule_id === ruleId && hasLabels(alert.labels, labels));
  const keys = new Set(alerts.map((alert) => labelsKey(alert.labels)));
  return {
    rule,
    alerts,
    routed: routed.filter((alert) => keys.has(labelsKey(alert.labels))),
    deliveries: deliveries.filter(({ rule_ids: ids }) => ids.includes(ruleId)),
    channels: new Map(channels.map(({ id, name }) => [id, name])),
    atMs: Date.now(),
  };
}

function State({ alerts, startsAt, atMs }: { alerts: readonly Alert[]; startsAt: string | undefined; atMs: number }) {
  const firing = alerts.filter(({ state }) => state === "firing").length;
  const text = firing > 0 ? "firing" : alerts.length > 0 ? "pending" : "ended";
  return (
    <p role="status">
      <Chip tone={firing > 0 ? "error" : alerts.length > 0 ? "warn" : "good"} text={text} />{" "}
      {alerts.length > 1 && `${alerts.length} alerts, `}
      {startsAt !== undefined && (
        <span class="quiet" title={timestampText(startsAt)}>
          {text === "ended" ? `began ${timestampText(startsAt)}` : `since ${ago(startsAt, atMs).replace(" ago", "")}`}
        </span>
      )}
    </p>
  );
}

interface PartsProps {
  readonly data: AlertData;
  readonly labels: Labels;
  readonly ruleId: string;
  readonly range: AddressRange;
  readonly requestKey: string;
}

function Parts({ data, labels: wanted, ruleId, range, requestKey }: PartsProps) {
  const { rule, alerts, atMs } = data;
  const labels = commonLabels(alerts) ?? wanted;
  const annotations = alerts.length === 1 ? (alerts[0]?.annotations ?? {}) : (rule.annotations ?? {});
  return (
    <>
      <Summary annotations={annotations} />
      <Actions rule={rule} ruleId={ruleId} labels={labels} annotations={annotations} routed={data.routed} />
      {rule.logs === undefined && <ValueChart rule={rule} alerts={alerts} labels={wanted} requestKey={requestKey} />}
      <div class="cards">
        <LabelFacts labels={labels} alerts={alerts} range={range} />
        <Notified data={data} />
      </div>
      {alerts.length > 1 && <SameRule alerts={alerts} atMs={atMs} />}
      <div class="cards">
        <Evidence rule={rule} labels={labels} requestKey={requestKey} range={range} />
      </div>
      <section class="card" aria-label="History">
        <RuleHistory id={ruleId} />
      </section>
    </>
  );
}

function Summary({ annotations }: { annotations: Labels }) {
  const { summary, description } = annotations;
  return (
    <>
      {summary && (
        <p>
          <SenderText text={summary} />
        </p>
      )}
      {description && (
        <p class="quiet">
          <SenderText text={description} />
        </p>
      )}
    </>
  );
}

interface ActionsProps {
  readonly rule: Rule;
  readonly ruleId: string;
  readonly labels: Labels;
  readonly annotations: Labels;
  readonly routed: readonly RoutedAlert[];
}

function Actions({ rule, ruleId, labels, annotations, routed }: ActionsProps) {
  const runbook = annotations["runbook_url"] ?? annotations["runbook"];
  const silencedBy = routed.flatMap(({ status }) => status.silencedBy)[0];
  const silence = { view: "silences", silence: "new", matchers: formatMatchers(matchersOf({ alertname: rule.name, ...labels })) };
  const { from, to } = Object.fromEntries(route.value.query);
  return (
    <p class="row">
      {runbook !== undefined && /^https?:\/\//.test(runbook) && (
        <a class="button" href={runbook} rel="noreferrer noopener" target="_blank">
          Runbook
        </a>
      )}
      {silencedBy !== undefined && (
        <ButtonLink href={address("alerts", { view: "silences", silence: silencedBy })} text="Silenced: open silence" />
      )}
      {silencedBy === undefined && mayWrite.value && <ButtonLink href={address("alerts", silence)} text="Silence" />}
      <ButtonLink href={address("changes", { from, to })} text="What changed" />
      <ButtonLink href={address("alerts", { rule: ruleId })} text={mayWrite.value ? "Edit rule" : "Rule"} />
    </p>
  );
}

/** The compared value with the threshold and when it was crossed, or when the condition was met. */
function ValueChart({ rule, alerts, labels, requestKey }: { rule: Rule; alerts: readonly Alert[]; labels: Labels; requestKey: string }) {
  const compared = splitComparison(rule.expr);
  const expression = compared?.left ?? rule.expr;
  const loaded = useLoaded(`${expression} ${JSON.stringify(labels)} ${requestKey}`, async (signal) => {
    const range = currentRange();
    const all = await queryRange(expression, range, signal);
    // The rule adds its own labels to those of the series.
    const own = Object.fromEntries(Object.entries(labels).filter(([name]) => rule.labels?.[name] === undefined));
    const series = all.filter((candidate) => hasLabels(candidate.labels, own));
    return { range, series: series.length > 0 ? series : all };
  });
  const { range, series } = loaded.value.value ?? {};
  const unit = unitOfQuery(expression);
  const began = earliest(alerts);
  const markers = useMemo(
    () => (began === undefined ? [] : [{ atS: Date.parse(began) / 1000, kind: "alert" as const, text: "began" }]),
    [began],
  );
  return (
    <Card title="Value" href={address("metrics", { q: expression })}>
      <p class="quiet">
        {alerts.length === 1 && <span class="figure">{formatValue(Number(alerts[0]?.value), unit)}</span>} <code>{visible(rule.expr)}</code>
        {rule.for !== undefined && rule.for !== "0s" && ` for ${rule.for}`}
      </p>
      <Status of={loaded} empty={series?.length === 0 && "The expression has no values in this time range."}>
        {range && series && (
          <Chart
            series={series.slice(0, MAX_DRAWN)}
            range={range}
            thresholds={compared && [{ value: compared.threshold, severity: rule.severity }]}
            unit={unit}
            markers={markers}
            heightPx={220}
          />
        )}
      </Status>
    </Card>
  );
}
