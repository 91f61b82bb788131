// All services of a range, those that got worse first; and a single service with its charts and operations, optionally compared with
// another service or an earlier range.
import { useSignal } from "@preact/signals";
import { counted, visible } from "../parts/text.ts";
import { NameLink, Options, Status, Table, Tabs } from "../parts/common.tsx";
import { Download } from "../parts/download.tsx";
import { lazy } from "../parts/screens.tsx";
import { TimePicker, useRefresh } from "../parts/time-picker.tsx";
import { call } from "../state/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { address, choose, route } from "../state/route.ts";
import { type AddressRange, currentRange, rangeQuery, span } from "../state/time.ts";
import { written } from "../logs/query-line.ts";
import { type Exemplar, ExemplarList, readExemplars } from "../metrics/exemplars.tsx";
import { type Operation, type Point, rateText, servicesBetween, shareText, worstFirst } from "./service.ts";
import { ServiceTable } from "./table.tsx";
import { RunsOn } from "./runs-on.tsx";

const Chart = lazy(async () => (await import("../metrics/chart.tsx")).Chart);
const ServiceMap = lazy(async () => (await import("./map.tsx")).ServiceMap);

export function Services() {
  const { id, query } = route.value;
  const again = useSignal(0);
  useRefresh(() => again.value++);
  const asked = `${query.get("from")} ${query.get("to")} ${again.value}`;
  const range = { from: query.get("from") ?? undefined, to: query.get("to") ?? undefined };
  const isMap = query.get("view") === "map";
  return (
    <section class="screen services" aria-labelledby="title">
      <div class="bar">
        <h1 id="title">{id ? <bdi>{visible(id)}</bdi> : "Services"}</h1>
        <TimePicker onNow={() => again.value++} />
        {id ? (
          <ServiceLinks service={id} range={range} />
        ) : (
          <Tabs label="Shown as" tabs={[["", "list"], "map"]} chosen={isMap ? "map" : ""} onChoose={(view) => choose({ view })} />
        )}
      </div>
      {id ? (
        <OneService service={id} asked={asked} range={range} key={id} />
      ) : isMap ? (
        <ServiceMap asked={asked} range={range} />
      ) : (
        <AllServices asked={asked} range={range} />
      )}
    </section>
  );
}

function AllServices({ asked, range }: { asked: string; range: AddressRange }) {
  const found = useLoaded(asked, async (signal) => {
    const { fromMs, toMs } = currentRange();
    const [now, before] = await Promise.all([servicesBetween(fromMs, toMs, signal), servicesBetween(2 * fromMs - toMs, fromMs, signal, 1)]);
    return worstFirst(now, before);
  });
  const services = found.value.value ?? [];
  const worse = services.filter((service) => service.worse > 0).length;
  return (
    <Status of={found} empty={services.length === 0 && <p>No spans in this range. Send traces with an OpenTelemetry SDK.</p>}>
      {services.length > 0 && (
        <>
          <p role="status">
            {counted(services.length, "service")}
            {worse > 0 && <strong class="level is-error"> {worse} worse than in the range before</strong>}{" "}
            <Download name="services" read={() => services.map(({ series: _series, worse: _worse, ...figures }) => ({ ...figures }))} />
          </p>
          <ServiceTable services={services} range={range} />
        </>
      )}
    </Status>
  );
}

function ServiceLinks({ service, range }: { service: string; range: AddressRange }) {
  return (
    <>
      <a href={address("traces", { service, ...range })}>traces</a>
      <a href={address("traces", { service, error: "true", ...range })}>traces with errors</a>
      <a href={address("logs", { q: written({ not: false, name: "source", value: service }), ...range })}>logs</a>
      <a href={address("services", range)}>all services</a>
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
async function pointsOf(service: string, { fromMs, toMs }: { fromMs: number; toMs: number }, signal: AbortSignal): Promise<Point[]> {
  const query = rangeQuery({ fromMs, toMs, last: undefined });
  const points = await call<Point[]>(`/query/services/${encodeURIComponent(service)}/timeseries`, { query, signal });
  return points.filter(({ end }) => Date.parse(end) <= Date.now());
}

/** Points to compare with, in the same order but at the times of the current range. */
async function comparedPoints(service: string, chosen: string, points: readonly Point[], signal: AbortSignal): Promise<Point[]> {
  const { fromMs, toMs } = currentRange();
  const backMs = EARLIER[chosen]?.(toMs - fromMs) ?? 0;
  const other = chosen.startsWith(OTHER_SERVICE) ? chosen.slice(OTHER_SERVICE.length) : service;
  const found = await pointsOf(other, { fromMs: fromMs - backMs, toMs: toMs - backMs }, signal);
  return found.slice(0, points.length).map((point, at) => ({ ...point, start: points[at]?.start ?? point.start }));
}

function Compared({ service, asked }: { service: string; asked: string }) {
  const found = useLoaded(asked, async (signal) => {
    const { fromMs, toMs } = currentRange();
    return await servicesBetween(fromMs, toMs, signal, 1);
  });
  const others = (found.value.value ?? []).map((row) => row.service).filter((name) => name !== service);
  const chosen = route.value.query.get("with") ?? "";
  return (
    <label>
      compare with{" "}
      <select value={chosen} onChange={(event) => choose({ with: event.currentTarget.value || undefined })}>
        <Options of={[["", "nothing"], ...Object.keys(EARLIER), ...others.map((name) => [`${OTHER_SERVICE}${name}`, name] as const)]} />
        {chosen.startsWith(OTHER_SERVICE) && !others.includes(chosen.slice(OTHER_SERVICE.length)) && (
          <option value={chosen}>{visible(chosen.slice(OTHER_SERVICE.length))}</option>
        )}
      </select>
    </label>
  );
}

/** The query whose exemplars are calls that the service's charts count. */
function latencyQuery(service: string): string {
  const kinds = "SPAN_KIND_SERVER|SPAN_KIND_CONSUMER";
  return `histogram_quantile(0.95, traces_spanmetrics_latency_bucket{service=${JSON.stringify(service)},span_kind=~"${kinds}"})`;
}

function OneService({ service, asked, range }: { service: string; asked: string; range: AddressRange }) {
  const path = `/query/services/${encodeURIComponent(service)}`;
  const chosen = route.value.query.get("with") ?? "";
  const found = useLoaded(`${service} ${asked} ${chosen}`, async (signal) => {
    const range = currentRange();
    const [points, operations, exemplars] = await Promise.all([
      pointsOf(service, range, signal),
      call<Operation[]>(`${path}/operations`, { query: rangeQuery(range), signal }),
      readExemplars([latencyQuery(service)], range, signal),
    ]);
    const compared = chosen ? { name: visible(chosen), points: await comparedPoints(service, chosen, points, signal) } : undefined;
    return { points, compared, operations, exemplars, fromS: range.fromMs / 1000, toS: range.toMs / 1000 };
  });
  const shown = found.value.value;
  const isEmpty = shown?.points.every(({ calls }) => calls === 0) && shown.operations.length === 0;
  return (
    <Status of={found} empty={isEmpty && "No calls in this range."}>
      {shown && !isEmpty && (
        <>
          <RunsOn service={service} asked={asked} range={range} />
          <div class="row">
            <Compared service={service} asked={asked} />
          </div>
          <div class="charts">
            <Figure title="Calls per second" shown={shown} lines={[["rate", ({ rate }) => rate]]} />
            <Figure title="Error ratio" shown={shown} lines={[["errors", ({ error_ratio: ratio }) => ratio]]} />
            <Figure
              title="Latency, ms"
              shown={shown}
              lines={[
                ["p50", ({ p50_ms: ms }) => ms],
                ["p95", ({ p95_ms: ms }) => ms],
                ["p99", ({ p99_ms: ms }) => ms],
              ]}
              exemplars={shown.exemplars}
            />
          </div>
          <ExemplarList exemplars={shown.exemplars} />
          <Operations service={service} operations={shown.operations} range={range} />
          <ServiceMap asked={asked} range={range} service={service} />
        </>
      )}
    </Status>
  );
}

interface FigureProps {
  readonly title: string;
  readonly shown: {
    readonly points: readonly Point[];
    readonly compared: { readonly name: string; readonly points: readonly Point[] } | undefined;
    readonly fromS: number;
    readonly toS: number;
  };
  readonly lines: readonly (readonly [name: string, of: (point: Point) => number | null])[];
  readonly exemplars?: readonly Exemplar[];
}

function Figure({ title, shown: { points, compared, fromS, toS }, lines, exemplars }: FigureProps) {
  const seriesOf = (from: readonly Point[], suffix = "") =>
    lines.map(([name, of]) => ({
      name: `${name}${suffix}`,
      short: `${name}${suffix}`,
      points: from.map((point) => [Date.parse(point.start) / 1000, of(point) ?? Number.NaN] as const),
    }));
  const series = [...seriesOf(points), ...(compared ? seriesOf(compared.points, `, ${compared.name}`) : [])];
  return (
    <figure>
      <figcaption>{title}</figcaption>
      <Chart series={series} fromS={fromS} toS={toS} heightPx={180} exemplars={exemplars} perSecond={1000} />
    </figure>
  );
}

function Operations({ service, operations, range }: { service: string; operations: readonly Operation[]; range: AddressRange }) {
  return (
    <Table title="Operations" heads={["operation", "kind", "rate", "errors", "p50", "p95", "p99"]}>
      {operations.map(({ operation, kind, rate, error_ratio: errors, p50_ms: p50, p95_ms: p95, p99_ms: p99 }) => (
        <tr key={`${operation} ${kind}`}>
          <th scope="row">
            <NameLink href={address("traces", { service, operation, ...range })} text={operation} />
          </th>
          <td>{visible(kind.toLowerCase())}</td>
          <td class="number">{rateText(rate)}</td>
          <td class="number">
            <a class={errors > 0 ? "level is-error" : ""} href={address("traces", { service, operation, error: "true", ...range })}>
              {shareText(errors)}
            </a>
          </td>
          {[p50, p95, p99].map((ms, at) => (
            <td class="number" key={at}>
              {ms === null ? "–" : span(ms)}
            </td>
          ))}
        </tr>
      ))}
    </Table>
  );
}
