// Draws the service map: a box per service, database, queue and external host, a line per kind of call between two of them; below it, a
// table with the same calls in numbers. Services are links, so the map can be used by keyboard too.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { NameLink, Status, Tabs, Table, counted, visible } from "../parts/index.ts";
import { call, useLoaded, address, choose, route, type AddressRange, currentRange, rangeQuery, span } from "../state/index.ts";
import { layOut, neighbourhood, NODE_HEIGHT_PX, NODE_WIDTH_PX, serverKind } from "./map-layout.ts";
import type { Edge, Graph, Layout, PlacedEdge, PlacedNode } from "./map-layout.ts";
import { rateText, readServices, type Service, shareText } from "./service.ts";

/** Characters of a name that fit into a box. */
const NAME_LENGTH = 22;
const MAX_ROWS = 200;
const MIN_ERROR_RATIO = 0.01;
const NORMAL = "100";
const SIZES = [
  ["fit", "Fit"],
  ["50", "50 %"],
  ["75", "75 %"],
  [NORMAL, "100 %"],
  ["150", "150 %"],
  ["200", "200 %"],
] as const;

/** The whole map, or only the callers and callees of one service. */
export function ServiceMap({ requestKey, range, service }: { requestKey: string; range: AddressRange; service?: string }) {
  const loaded = useLoaded(requestKey, async (signal) => {
    const { fromMs, toMs } = currentRange();
    const [graph, services] = await Promise.all([
      call<Graph>("/query/services/graph", { query: rangeQuery({ fromMs, toMs }), signal }),
      readServices(fromMs, toMs, signal, 1),
    ]);
    return { graph, services: new Map(services.map((one) => [one.service, one])) };
  });
  const { graph, services = NO_FIGURES } = loaded.value.value ?? {};
  const edges = useMemo(() => (graph ? (service === undefined ? graph.edges : neighbourhood(graph, service)) : []), [graph, service]);
  return (
    <section class="service-map" aria-label="Service map">
      {service !== undefined && <h2>Calls</h2>}
      <Status
        of={loaded}
        empty={edges.length === 0 && "No calls between services in this time range. New calls appear after about a minute."}
      >
        <Picture edges={edges} services={services} range={range} service={service} />
        <Calls edges={edges} range={range} />
      </Status>
    </section>
  );
}

/** How often a service is called, and what comes of it. */
type Figures = Pick<Service, "rate" | "error_ratio" | "p95_ms">;
const NO_FIGURES: ReadonlyMap<string, Figures> = new Map();

interface PictureProps {
  readonly edges: readonly Edge[];
  readonly services: ReadonlyMap<string, Figures>;
  readonly range: AddressRange;
  readonly service: string | undefined;
}

function Picture({ edges, services, range, service }: PictureProps) {
  const layout = useMemo(() => layOut(edges), [edges]);
  const pointed = useSignal<string | undefined>(undefined);
  const max = Math.max(...edges.map(({ rate }) => rate));
  return (
    <>
      <Sized layout={layout} isResizable={service === undefined}>
        <defs>
          {["is-plain", "is-error"].map((colour) => (
            <marker
              id={`arrow-${colour}`}
              key={colour}
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="9"
              markerHeight="9"
              markerUnits="userSpaceOnUse"
              orient="auto"
            >
              <path d="M0 0 L8 4 L0 8 z" class={`arrow ${colour}`} />
            </marker>
          ))}
        </defs>
        {layout.edges.map((placed) => (
          <Call
            key={`${placed.from.key} ${placed.to.key} ${placed.edge.connection}`}
            placed={placed}
            max={max}
            isFaded={pointed.value !== undefined && placed.from.key !== pointed.value && placed.to.key !== pointed.value}
          />
        ))}
        {layout.nodes.map((node) => (
          <g
            key={node.key}
            onMouseEnter={() => (pointed.value = node.key)}
            onMouseLeave={() => (pointed.value = undefined)}
            onFocusIn={() => (pointed.value = node.key)}
            onFocusOut={() => (pointed.value = undefined)}
          >
            <Box
              node={node}
              figures={node.kind === "service" ? services.get(node.name) : figuresOf(node, edges)}
              range={range}
              isCentre={node.kind === "service" && node.name === service}
            />
          </g>
        ))}
      </Sized>
      {layout.omitted > 0 && (
        <p class="quiet">{counted(layout.omitted, "node")} with fewer calls not shown. Open a service to see its neighbours.</p>
      )}
    </>
  );
}

function Sized({ layout, isResizable, children }: { layout: Layout; isResizable: boolean; children: ComponentChildren }) {
  const wanted = route.value.query.get("size") ?? NORMAL;
  const found = SIZES.findIndex(([known]) => known === wanted);
  const at = found < 0 ? SIZES.findIndex(([known]) => known === NORMAL) : found;
  const [size] = SIZES[at] ?? [NORMAL];
  const factor = Number(size) / 100;
  const resize = (chosen: string = size): void => choose({ size: chosen === NORMAL ? undefined : chosen }, { replace: true });
  /** With Ctrl, as in the browser, and as a pinch on a touch pad arrives. */
  const zoomByWheel = (event: WheelEvent): void => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    resize(SIZES[at + (event.deltaY < 0 ? 1 : -1)]?.[0]);
  };
  const { widthPx, heightPx } = layout;
  const shown =
    size === "fit" ? { width: "100%", style: { maxWidth: `${widthPx}px` } } : { width: widthPx * factor, height: heightPx * factor };
  return (
    <>
      {isResizable && <Tabs label="Size of the map" tabs={SIZES} chosen={size} onChoose={resize} />}
      <div class="wide" tabIndex={0} role="group" aria-label="Map" onWheel={zoomByWheel}>
        <svg {...shown} viewBox={`0 0 ${widthPx} ${heightPx}`}>
          {children}
        </svg>
      </div>
    </>
  );
}

/** The calls of all services to a database, queue or host, which is no service itself. */
function figuresOf({ kind, name }: PlacedNode, edges: readonly Edge[]): Figures | undefined {
  const calls = edges.filter(({ connection, server }) => connection === kind && server === name);
  const [slowest] = calls.toSorted((a, b) => (b.p95_ms ?? 0) - (a.p95_ms ?? 0));
  const rate = calls.reduce((sum, edge) => sum + edge.rate, 0);
  const errors = calls.reduce((sum, edge) => sum + edge.rate * edge.error_ratio, 0);
  return slowest && { rate, error_ratio: rate === 0 ? 0 : errors / rate, p95_ms: slowest.p95_ms };
}

interface BoxProps {
  readonly node: PlacedNode;
  readonly figures: Figures | undefined;
  readonly range: AddressRange;
  readonly isCentre: boolean;
}

function Box({ node, figures, range, isCentre }: BoxProps) {
  const name = visible(node.name);
  const shown = name.length > NAME_LENGTH ? `${name.slice(0, NAME_LENGTH - 1)}…` : name;
  const isFailing = figures !== undefined && figures.error_ratio >= MIN_ERROR_RATIO;
  const facts = figures ? `${rateText(figures.rate)} · ${shareText(figures.error_ratio)} · ${latency(figures.p95_ms)}` : node.kind;
  const box = (
    <>
      <title>{node.kind === "service" ? name : `${name}, ${node.kind}`}</title>
      <rect
        x={node.x}
        y={node.y}
        width={NODE_WIDTH_PX}
        height={NODE_HEIGHT_PX}
        rx={node.kind === "service" ? 6 : NODE_HEIGHT_PX / 2}
        class={`box ${isCentre ? "is-centre" : ""} ${isFailing ? "is-failing" : ""}`}
      />
      <text x={node.x + NODE_WIDTH_PX / 2} y={node.y + 22} class="name">
        {`${shown} `}
      </text>
      <text x={node.x + NODE_WIDTH_PX / 2} y={node.y + 39} class={`figures ${isFailing ? "is-error" : ""}`}>
        {facts}
      </text>
    </>
  );
  if (node.kind !== "service") return <g>{box}</g>;
  return (
    <a href={address("services", { ...range }, node.name)} aria-label={`Service ${shown} ${facts}`}>
      {box}
    </a>
  );
}

function Call({ placed: { edge, from, to }, max, isFaded }: { placed: PlacedEdge; max: number; isFaded: boolean }) {
  const colour = edge.error_ratio >= MIN_ERROR_RATIO ? "is-error" : "is-plain";
  const width = 1 + 2 * Math.sqrt(max > 0 ? edge.rate / max : 0);
  return (
    <path
      d={pathOf(from, to)}
      class={`call ${colour} ${isFaded ? "is-faded" : ""}`}
      stroke-width={width}
      marker-end={`url(#arrow-${colour})`}
    >
      <title>
        {`${visible(from.name)} → ${visible(to.name)}: ${rateText(edge.rate)}, ${shareText(edge.error_ratio)} errors, p95 ${latency(edge.p95_ms)}`}
      </title>
    </path>
  );
}

/** From the right side of the caller to the left side of the callee; backward calls and calls to itself are arcs below. */
function pathOf(from: PlacedNode, to: PlacedNode): string {
  const [startX, startY] = [from.x + NODE_WIDTH_PX, from.y + NODE_HEIGHT_PX / 2];
  const [endX, endY] = [to.x - 2, to.y + NODE_HEIGHT_PX / 2];
  if (to.x > from.x) {
    const middle = (startX + endX) / 2;
    return `M${startX} ${startY} C${middle} ${startY} ${middle} ${endY} ${endX} ${endY}`;
  }
  const lowest = Math.max(from.y, to.y) + NODE_HEIGHT_PX + 18;
  return `M${startX} ${startY} C${startX + 50} ${lowest} ${endX - 50} ${lowest} ${endX} ${endY}`;
}

const latency = (ms: number | null): string => (ms === null ? "unknown" : span(ms));

function Calls({ edges, range }: { edges: readonly Edge[]; range: AddressRange }) {
  return (
    <>
      <Table
        title="Calls between services"
        rows={edges.slice(0, MAX_ROWS)}
        keyOf={(edge) => `${edge.client} ${edge.server} ${edge.connection}`}
        columns={[
          {
            head: "caller",
            kind: "name",
            cell: ({ client }) => <NameLink href={address("services", { ...range }, client)} text={client} />,
          },
          {
            head: "callee",
            cell: (edge) =>
              serverKind(edge) === "service" ? (
                <NameLink href={address("services", { ...range }, edge.server)} text={edge.server} />
              ) : (
                edge.server
              ),
          },
          { head: "type", cell: ({ connection }) => connection || "request" },
          { head: "rate", kind: "number", cell: ({ rate }) => rateText(rate) },
          {
            head: "errors",
            kind: "number",
            class: (edge) => (edge.error_ratio >= MIN_ERROR_RATIO ? "level is-error" : ""),
            cell: (edge) => shareText(edge.error_ratio),
          },
          { head: "p95", kind: "number", cell: (edge) => latency(edge.p95_ms) },
        ]}
      />
      {edges.length > MAX_ROWS && (
        <p class="quiet">
          Only the {MAX_ROWS} connections with the most calls of {edges.length.toLocaleString("en")} are shown.
        </p>
      )}
    </>
  );
}
