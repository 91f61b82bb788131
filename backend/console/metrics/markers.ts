// What happened while a chart was recorded: versions of a service that were deployed, and Kubernetes events. Charts are complete without
// them, so a failed request only means that no markers are shown.
import type { ApiResponses } from "../../client/api.ts";
import { call } from "../state/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { currentRange, type Range, rangeQuery } from "../state/time.ts";
import { formatAttribute, parseAttributes } from "../traces/search.ts";
import type { Marker } from "./plot-drawing.ts";

type Facet = ApiResponses["GET /query/traces/facets"][number];
type HeatmapPoint = ApiResponses["GET /query/traces/heatmap"][number];
type LogRow = ApiResponses["GET /query/logs"][number];

const VERSION_ATTRIBUTES = ["service.version", "container.image.tag"];
const MAX_VERSIONS = 8;
const MAX_EVENTS = 30;
/** The time of a deployment is known to this part of the range. */
const POINTS = 120;
/** Events of routine, such as `Pulled`, do not explain a change. */
const EVENTS = "level>=warn";

interface MarkerSource {
  readonly service?: string | undefined;
  /** A log query that selects Kubernetes events. */
  readonly events?: string | undefined;
}

export function useMarkers({ service, events }: MarkerSource, requestKey: string): readonly Marker[] | undefined {
  const key = service === undefined && events === undefined ? undefined : `${service} ${events} ${requestKey}`;
  const loaded = useLoaded(key, async (signal) => {
    const range = currentRange();
    const parts = await Promise.all([
      service === undefined ? [] : readVersions(service, range, signal).catch(() => []),
      events === undefined ? [] : readEvents(events, range, signal).catch(() => []),
    ]);
    return parts.flat();
  });
  return loaded.value.value;
}

/** A version whose first span is in the range, unless it is in the first interval: then it was there before. */
async function readVersions(service: string, range: Range, signal: AbortSignal): Promise<Marker[]> {
  const facets = await call<Facet[]>("/query/traces/facets", { query: { service, ...rangeQuery(range) }, signal });
  const attribute = VERSION_ATTRIBUTES.find((name) => facets.some((facet) => facet.name === `attribute.${name}`));
  const versions = facets.find(({ name }) => name === `attribute.${attribute}`)?.values ?? [];
  // One version cannot have replaced another.
  if (attribute === undefined || versions.length < 2) return [];
  const firsts = versions.slice(0, MAX_VERSIONS).map(async ({ value }): Promise<Marker[]> => {
    const where = parseAttributes(formatAttribute(attribute, value));
    const query = { service, where, points: POINTS, ...rangeQuery(range) };
    const points = await call<HeatmapPoint[]>("/query/traces/heatmap", { query, signal });
    const first = points.findIndex(({ spans }) => spans > 0);
    const start = points[first]?.start;
    return first > 0 && start !== undefined ? [{ atS: Date.parse(start) / 1000, kind: "version", text: value }] : [];
  });
  return (await Promise.all(firsts)).flat();
}

async function readEvents(events: string, range: Range, signal: AbortSignal): Promise<Marker[]> {
  const query = { query: `${events} ${EVENTS}`, limit: MAX_EVENTS, ...rangeQuery(range) };
  const rows = await call<LogRow[]>("/query/logs", { query, signal });
  return rows.map(({ timestamp, message, labels }) => ({
    atS: Date.parse(timestamp) / 1000,
    kind: "event",
    text: `${labels["k8s.event.reason"] ?? "event"}: ${message.slice(0, 120)}`,
  }));
}
