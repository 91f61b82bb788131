// All services of a range, those that got worse first; and a single service with its charts and operations, optionally compared with
// another service or an earlier range.
import { Bar, counted, visible, NameLink, Status, Table, ButtonLink, Select, Tabs, Download, useScreenRange } from "../parts/index.ts";
import type { Column } from "../parts/index.ts";
import { call, useLoaded, address, choose, route, type AddressRange, currentRange, type Range, rangeQuery, span } from "../state/index.ts";
import { formatTerm } from "../logs/query-line.ts";
import { ExemplarList, readExemplars } from "../metrics/exemplars.tsx";
import { useMarkers } from "../metrics/markers.ts";
import { changeText } from "../metrics/plot-data.ts";
import { type Operation, type Point, rateText, readServices, shareText, WORSE_LATENCY, worstFirst } from "./service.ts";
import { ServiceMap } from "./map.tsx";
import { ServiceTable } from "./service-table.tsx";
import { RunsOn } from "./runs-on.tsx";
import { ServiceCharts } from "./service-charts.tsx";

export function Services() {
  const { id, query } = route.value;
  const { range, refresh, rangeKey: requestKey } = useScreenRange();
  const isMap = query.get("view") === "map";
  return (
    <section class="screen services" aria-labelledby="title">
      <Bar title={id ? <bdi>{visible(id)}</bdi> : "Services"} onNow={refresh}>
        {id ? (
          <ServiceLinks service={id} range={range} />
        ) : (
          <Tabs label="Shown as" tabs={[["", "list"], "map"]} chosen={isMap ? "map" : ""} onChoose={(view) => choose({ view })} />
        )}
      </Bar>
      {id ? (
        <OneService service={id} requestKey={requestKey} range={range} key={id} />
      ) : isMap ? (
        <ServiceMap requestKey={requestKey} range={range} />
      ) : (
        <AllServices requestKey={requestKey} range={range} />
      )}
    </section>
  );
}

function AllServices({ requestKey, range }: { requestKey: string; range: AddressRange }) {
  const loaded = useLoaded(requestKey, async (signal) => {
    const { fromMs, toMs } = currentRange();
    const [now, before] = await Promise.all([readServices(fromMs, toMs, signal), readServices(2 * fromMs - toMs, fromMs, signal, 1)]);
    return worstFirst(now, before);
  });
  const services = loaded.value.value ?? [];
  const worse = services.filter((service) => service.worse > 0).length;
  return (
    <Status of={loaded} empty={services.length === 0 && <NoSpans />}>
      <p role="status">
        {counted(services.length, "service")}
        {worse > 0 && <strong class="level is-error"> {worse} worse than in the previous time range</strong>}{" "}
        <Download name="services" read={() => services.map(({ series: _series, worse: _worse, ...figures }) => ({ ...figures }))} />
      </p>
      <ServiceTable services={services} range={range} />
    </Status>
  );
}

function NoSpans() {
  return (
    <>
      No spans in this time range. Choose a longer one, or <a href={address("add", { kind: "sdk" })}>connect an OpenTelemetry SDK</a>.
    </>
  );
}

function ServiceLinks({ service, range }: { service: string; range: AddressRange }) {
  return (
    <>
      <ButtonLink class="small" href={address("changes", { service, ...range })} text="Changes" />
      <ButtonLink class="small" href={address("traces", { service, ...range })} text="Traces" />
      <ButtonLink class="small" href={address("traces", { service, error: "true", ...range })} text="Traces with errors" />
      <ButtonLink
        class="small"
        href={address("logs", { q: formatTerm({ not: false, name: "source", value: service }), ...range })}
        text="Logs"
      />
      <ButtonLink class="small" href={address("services", range)} text="All services" />
    </>
  );
}

const DAY_MS = 86_400_000;
/** Earlier ranges of the same length, and how far back each is. */
const EARLIER: Readonly<Record<string, (spanMs: number) => number>> = {
  "the range before": (spanMs) => spanMs,
  "a day before": () => DAY_MS,
  "a week before": () => 7 * DAY_MS,
};
const OTHER_SERVICE = "service ";

/** Calls of `service`, without the last interval if it has not ended yet. */
async function readPoints(service: string, range: Pick<Range, "fromMs" | "toMs">, signal: AbortSignal): Promise<Point[]> {
  const query = rangeQuery(range);
  const points = await call<Point[]>(`/query/services/${encodeURIComponent(service)}/timeseries`, { query, signal });
  return points.filter(({ end }) => Date.parse(end) <= Date.now());
}

async function readOperations(service: string, range: Pick<Range, "fromMs" | "toMs">, signal: AbortSignal): Promise<Operation[]> {
  return await call<Operation[]>(`/query/services/${encodeURIComponent(service)}/operations`, { query: rangeQuery(range), signal });
}

/** Operations and points to compare with; the points are in the same order but at the times of the current range. */
async function readCompared(service: string, chosen: string, points: readonly Point[], signal: AbortSignal) {
  const { fromMs, toMs } = currentRange();
  const backMs = EARLIER[chosen]?.(toMs - fromMs) ?? 0;
  const other = chosen.startsWith(OTHER_SERVICE) ? chosen.slice(OTHER_SERVICE.length) : service;
  const range = { fromMs: fromMs - backMs, toMs: toMs - backMs };
  const [found, operations] = await Promise.all([readPoints(other, range, signal), readOperations(other, range, signal)]);
  const moved = found.slice(0, points.length).map((point, at) => ({ ...point, start: points[at]?.start ?? point.start }));
  return { name: visible(chosen), points: moved, operations };
}

function Compared({ service, requestKey }: { service: string; requestKey: string }) {
  const loaded = useLoaded(requestKey, async (signal) => {
    const { fromMs, toMs } = currentRange();
    return await readServices(fromMs, toMs, signal, 1);
  });
  const others = (loaded.value.value ?? []).map((row) => row.service).filter((name) => name !== service);
  const chosen = route.value.query.get("with") ?? "";
  const names = chosen.startsWith(OTHER_SERVICE) ? new Set([...others, chosen.slice(OTHER_SERVICE.length)]) : others;
  const choices = [
    ["", "nothing"] as const,
    ...Object.keys(EARLIER),
    ...[...names].map((name) => [`${OTHER_SERVICE}${name}`, name] as const),
  ];
  return <Select label="Compare with" of={choices} value={chosen} onChoose={(value) => choose({ with: value })} />;
}

/** The query whose exemplars are calls that the service's charts count. */
function latencyQuery(service: string): string {
  const kinds = "SPAN_KIND_SERVER|SPAN_KIND_CONSUMER";
  return `histogram_quantile(0.95, traces_spanmetrics_latency_bucket{service=${JSON.stringify(service)},span_kind=~"${kinds}"})`;
}

function OneService({ service, requestKey, range }: { service: string; requestKey: string; range: AddressRange }) {
  const chosen = route.value.query.get("with") ?? "";
  // Asked for together with the charts, so that they are not drawn twice.
  const markers = useMarkers({ service }, `${service} ${requestKey}`);
  const loaded = useLoaded(`${service} ${requestKey} ${chosen}`, async (signal) => {
    const range = currentRange();
    const [points, operations, exemplars] = await Promise.all([
      readPoints(service, range, signal),
      readOperations(service, range, signal),
      readExemplars([latencyQuery(service)], range, signal),
    ]);
    const compared = chosen ? await readCompared(service, chosen, points, signal) : undefined;
    return { points, compared, operations, exemplars, range };
  });
  const shown = loaded.value.value;
  const isEmpty = shown?.points.every(({ calls }) => calls === 0) && shown.operations.length === 0;
  return (
    <Status of={loaded} empty={isEmpty && "No calls in this time range."}>
      {shown && !isEmpty && (
        <>
          <RunsOn service={service} requestKey={requestKey} range={range} />
          <div class="row">
            <Compared service={service} requestKey={requestKey} />
          </div>
          <ServiceCharts markers={markers} {...shown} />
          <ExemplarList exemplars={shown.exemplars} />
          <Operations service={service} operations={shown.operations} compared={shown.compared?.operations} range={range} />
          <ServiceMap requestKey={requestKey} range={range} service={service} />
        </>
      )}
    </Status>
  );
}

function latencyColumn(head: string, latency: (row: Operation) => number | null): Column<Operation> {
  return { head, kind: "number", order: latency, cell: (row) => durationText(latency(row)) };
}

const growth = ([now, earlier]: readonly [number, number]): number => (now === earlier ? 1 : now / earlier);

/** The difference to the same operation in what the service is compared with. A figure that grew by half is red, except the rate. */
function changeColumn(head: string, of: (row: Operation) => number | null, before: ReadonlyMap<string, Operation>): Column<Operation> {
  const figures = (row: Operation): readonly [now: number, before: number] => {
    const earlier = before.get(operationKey(row));
    return [of(row) ?? Number.NaN, (earlier && of(earlier)) ?? Number.NaN];
  };
  return {
    head,
    kind: "number",
    order: (row) => growth(figures(row)) || 0,
    class: (row) => (head !== "Δ rate" && growth(figures(row)) >= WORSE_LATENCY ? "is-error" : "quiet"),
    cell: (row) => (before.has(operationKey(row)) ? changeText(...figures(row)) || "–" : "new"),
  };
}

const operationKey = ({ operation, kind }: Operation): string => `${operation} ${kind}`;

interface OperationsProps {
  readonly service: string;
  readonly operations: readonly Operation[];
  readonly compared: readonly Operation[] | undefined;
  readonly range: AddressRange;
}

function Operations({ service, operations, compared, range }: OperationsProps) {
  const before = new Map(compared?.map((row) => [operationKey(row), row]));
  const ended = compared?.filter((row) => !operations.some((other) => operationKey(other) === operationKey(row))) ?? [];
  const change = (head: string, of: (row: Operation) => number | null) => (compared ? [changeColumn(head, of, before)] : []);
  const tracesOf = (operation: string, error?: string): string => address("traces", { service, operation, error, ...range });
  return (
    <>
      <Table
        title="Operations"
        rows={operations}
        keyOf={operationKey}
        columns={[
          { head: "operation", kind: "name", cell: ({ operation }) => <NameLink href={tracesOf(operation)} text={operation} /> },
          { head: "kind", cell: ({ kind }) => kind.toLowerCase() },
          { head: "rate", kind: "number", order: ({ rate }) => rate, cell: ({ rate }) => rateText(rate) },
          ...change("Δ rate", (row) => row.rate),
          {
            head: "errors",
            kind: "number",
            order: ({ error_ratio: errors }) => errors,
            cell: ({ operation, error_ratio: errors }) => (
              <a class={errors > 0 ? "level is-error" : ""} href={tracesOf(operation, "true")}>
                {shareText(errors)}
              </a>
            ),
          },
          ...change("Δ errors", (row) => row.error_ratio),
          latencyColumn("p50", (row) => row.p50_ms),
          latencyColumn("p95", (row) => row.p95_ms),
          ...change("Δ p95", (row) => row.p95_ms),
          latencyColumn("p99", (row) => row.p99_ms),
        ]}
      />
      {ended.length > 0 && (
        <p class="quiet">Called only in what it is compared with: {visible(ended.map((row) => row.operation).join(", "))}.</p>
      )}
    </>
  );
}

const durationText = (ms: number | null): string => (ms === null ? "–" : span(ms));
