// Analyses the matching spans: their durations over time (a heatmap), their most frequent values (facets), and how slow or failed spans
// differ from the others. A click on a value searches for it.
import type { ApiResponses } from "../../client/api.ts";
import { Status } from "../parts/common.tsx";
import { Table } from "../parts/table.tsx";
import { Button } from "../parts/controls.tsx";
import { visible } from "../parts/text.ts";
import { call, type Query } from "../state/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { choose, route } from "../state/route.ts";
import { submitBy, formReader } from "../state/sending.ts";
import { timestampText, showRange, span } from "../state/time.ts";
import { addAttribute } from "./search.ts";

type Facet = ApiResponses["GET /query/traces/facets"][number];
type Difference = ApiResponses["GET /query/traces/differences"][number];
type HeatmapPoint = ApiResponses["GET /query/traces/heatmap"][number];

const SHOWN_VALUES = 8;
const SHOWN_DIFFERENCES = 30;
const POINTS = 60;
/** Attributes that have their own parameters in the address. */
const OWN_FIELDS = ["service", "operation"] as const;

export interface AnalysisProps {
  /** Identifies a request. */
  readonly requestKey: string;
  /** Parameters of GET /query/traces/facets, heatmap and differences. */
  readonly parameters: Query;
}

/** Parameters of an address that searches for spans with this value of a facet; undefined if that is not possible. */
function searchFor(name: string, value: string): Readonly<Record<string, string>> | undefined {
  if (OWN_FIELDS.some((known) => known === name)) return { [name]: value };
  if (name === "status" && value === "ERROR") return { error: "true" };
  if (!name.startsWith("attribute.")) return undefined;
  return { attributes: addAttribute(route.peek().query.get("attributes") ?? "", name.slice("attribute.".length), value) };
}

const nameOf = (name: string): string => visible(name.replace(/^attribute\./, ""));

function Value({ name, value }: { name: string; value: string }) {
  return (
    <button
      type="button"
      class="plain value"
      disabled={searchFor(name, value) === undefined}
      aria-label={`Only ${nameOf(name)} ${visible(value)}`}
      onClick={() => choose(searchFor(name, value) ?? {})}
    >
      <bdi>{visible(value) || "(empty)"}</bdi>
    </button>
  );
}

export function Facets({ requestKey, parameters }: AnalysisProps) {
  const loaded = useLoaded(requestKey, async (signal) => await call<Facet[]>("/query/traces/facets", { query: parameters, signal }));
  const facets = loaded.value.value ?? [];
  // Every span has a service.
  const total = facets.find(({ name }) => name === "service")?.spans ?? 0;
  return (
    <aside class="field-list" aria-label="Facets">
      <Status of={loaded} empty={facets.length === 0 && "No spans."}>
        {facets.map(({ name, values }) => (
          <details key={name} open={!name.startsWith("attribute.")}>
            <summary>
              <bdi>{nameOf(name)}</bdi>
            </summary>
            <ul>
              {values.slice(0, SHOWN_VALUES).map(({ value, count }) => (
                <li key={value}>
                  <Value name={name} value={value} />
                  <span class="quiet number">{count.toLocaleString("en")}</span>
                  <span class="share" style={{ width: `${(count / total) * 100}%` }} />
                </li>
              ))}
            </ul>
          </details>
        ))}
      </Status>
    </aside>
  );
}

/** Time from left to right, duration from bottom to top on a logarithmic scale; darker cells have more spans. */
export function Heatmap({ requestKey, parameters }: AnalysisProps) {
  const loaded = useLoaded(requestKey, async (signal) => {
    return await call<HeatmapPoint[]>("/query/traces/heatmap", { query: { ...parameters, points: POINTS }, signal });
  });
  const points = loaded.value.value ?? [];
  const limits = points.flatMap(({ buckets }) => buckets.map(({ max_ms: ms }) => ms));
  return (
    <Status of={loaded} empty={limits.length === 0 && "No spans in this time range."}>
      <Cells points={points} limits={[...new Set(limits)]} />
    </Status>
  );
}

const [WIDTH, HEIGHT] = [600, 120];

/** Index n of a bucket, which ends at 2^(n/4) ms. */
const indexOf = (ms: number): number => Math.round(Math.log2(ms) * 4);

function Cells({ points, limits }: { points: readonly HeatmapPoint[]; limits: readonly number[] }) {
  const [lowest, highest] = [Math.min(...limits.map(indexOf)), Math.max(...limits.map(indexOf))];
  const [cellWidth, cellHeight] = [WIDTH / points.length, HEIGHT / (highest - lowest + 1)];
  const max = Math.max(1, ...points.flatMap(({ buckets }) => buckets.map(({ count }) => count)));
  const errors = Math.max(1, ...points.map((point) => point.errors));
  const slowest = 2 ** (highest / 4);
  return (
    <figure class="heatmap">
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT + 8}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Span durations over time, up to ${span(slowest)}`}
      >
        {points.map((point, at) => (
          <g key={point.start} onClick={() => showRange(Date.parse(point.start), Date.parse(point.end))}>
            <rect class="behind" x={at * cellWidth} y={0} width={cellWidth} height={HEIGHT + 8} />
            {point.buckets.map(({ max_ms: ms, count }) => (
              <rect
                key={ms}
                class="cell"
                x={at * cellWidth}
                y={HEIGHT - (indexOf(ms) - lowest + 1) * cellHeight}
                width={cellWidth}
                height={cellHeight}
                fill-opacity={0.15 + 0.85 * (Math.log1p(count) / Math.log1p(max))}
              >
                <title>{`${timestampText(point.start)}: ${count.toLocaleString("en")} of ${span(ms / 2 ** 0.25)} to ${span(ms)}`}</title>
              </rect>
            ))}
            {point.errors > 0 && (
              <rect
                class="is-error"
                x={at * cellWidth}
                y={HEIGHT + 2}
                width={cellWidth}
                height={6}
                fill-opacity={0.3 + 0.7 * (point.errors / errors)}
              >
                <title>{`${timestampText(point.start)}: ${point.errors.toLocaleString("en")} with an error`}</title>
              </rect>
            )}
          </g>
        ))}
      </svg>
      <figcaption class="quiet">
        {span(2 ** ((lowest - 1) / 4))} to {span(slowest)}, from bottom to top; errors are marked below. Click to zoom in.
      </figcaption>
    </figure>
  );
}

/** Slow spans, or failed ones, next to the others. */
export function Differences({ requestKey, parameters }: AnalysisProps) {
  const slower = route.value.query.get("slower") ?? "";
  const loaded = useLoaded(`${requestKey} ${slower}`, async (signal) => {
    const query = { ...parameters, slower_than_ms: slower || undefined };
    const rows = await call<Difference[]>("/query/traces/differences", { query, signal });
    return { rows: rows.slice(0, SHOWN_DIFFERENCES), compared: slower ? `spans ≥ ${slower} ms` : "spans with an error" };
  });
  const { rows = [], compared = "" } = loaded.value.value ?? {};
  return (
    <section class="card" aria-label="Differences">
      <form class="filters" onSubmit={submitBy((form) => choose({ slower: formReader(form)("slower") }))}>
        <label>
          Compare spans that took at least
          <input name="slower" type="text" inputMode="numeric" size={6} pattern="\d+(\.\d+)?" defaultValue={slower} />
          ms
        </label>
        <Button type="submit" text="Compare" />
        <span class="quiet">with faster spans. Leave empty to compare spans with an error.</span>
      </form>
      <Status of={loaded} empty={rows.length === 0 && `No ${compared}, or no differences.`}>
        <Table
          title="Differences"
          rows={rows}
          keyOf={({ name, value }) => `${name} ${value}`}
          columns={[
            { head: "attribute", kind: "name", cell: ({ name }) => nameOf(name) },
            { head: "value", cell: ({ name, value }) => <Value name={name} value={value} /> },
            {
              head: `share of ${compared}`,
              kind: "number",
              order: (row) => row.compared_share,
              cell: (row) => percent(row.compared_share),
            },
            { head: "share of other spans", kind: "number", order: (row) => row.others_share, cell: (row) => percent(row.others_share) },
          ]}
        />
      </Status>
    </section>
  );
}

function percent(share: number): string {
  return `${Number((share * 100).toPrecision(2))} %`;
}
