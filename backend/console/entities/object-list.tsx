// A list of clusters, namespaces, workloads, nodes or pods with their state, unhealthy ones first: of the whole organisation, or of the
// entity whose page it is part of.
import { formatValue } from "../metrics/unit.ts";
import { Chip, NameLink, Status, ButtonLink, Checkbox, type Column, Table, shortNumber, visible, Button } from "../parts/index.ts";
import { useLoaded, address, choose, route, type AddressRange } from "../state/index.ts";
import { type ClusterObject, entityOf, OBJECT_KINDS, type ObjectKind, readObjects, TONES, whyAddress } from "./cluster-objects.ts";
import { type Entity, entityAddress } from "./entity.ts";

const REFRESH_MS = 30_000;
/** More rows make the page slow; the unhealthy and the sorted ones are first. */
const MAX_SHOWN = 300;
const FILTERED_FROM = 8;

interface ObjectListProps {
  readonly kind: ObjectKind;
  readonly within?: Entity;
  readonly range: AddressRange;
  readonly requestKey: string;
}

export function ObjectList({ kind, within, range, requestKey }: ObjectListProps) {
  const loaded = useLoaded(
    `${kind} ${JSON.stringify(within)} ${requestKey}`,
    async (signal) => await readObjects(kind, within, range, signal),
    { refreshMs: REFRESH_MS },
  );
  const { objects = [], total = 0, health, truncated } = loaded.value.value ?? {};
  const title = OBJECT_KINDS.find(([name]) => name === kind)?.[1] ?? kind;
  const { query } = route.value;
  const [typed, onlyUnhealthy] = [query.get("name") ?? "", query.get("unhealthy") !== null];
  const rows = objects.filter(
    (row) => (!onlyUnhealthy || row.health !== "ok") && [row.name, row.namespace, row.state].some((text) => text?.includes(typed)),
  );
  const unhealthy = (health?.bad ?? 0) + (health?.warning ?? 0);
  return (
    <section class="card objects" aria-label={title}>
      <header>
        <h2>{title}</h2>
        {health && (
          <p role="status">
            {unhealthy > 0 && <Chip tone={health.bad > 0 ? "error" : "warn"} text={`${unhealthy} unhealthy`} />}{" "}
            {total > 0 && `of ${total}`}
          </p>
        )}
        {!within && kind === "pod" && <States of={objects} typed={typed} />}
        {total > FILTERED_FROM && <Filter title={title} typed={typed} onlyUnhealthy={onlyUnhealthy} />}
      </header>
      <Status
        of={loaded}
        empty={
          total === 0 && (
            <>
              No agent reported a {kind} {range.to === undefined ? "in the last minutes" : "at that time"}.{" "}
              {!within && <a href={address("add", { kind: "cluster" })}>Connect a cluster</a>}
            </>
          )
        }
      >
        {(rows.length > MAX_SHOWN || truncated) && (
          <p class="quiet">The first {MAX_SHOWN} are shown. Type a part of the name, or open a cluster or namespace, to see the others.</p>
        )}
        {rows.length === 0 && <p class="quiet">No {kind} matches the filter.</p>}
        <Table
          title={title}
          rows={rows}
          maxRows={MAX_SHOWN}
          keyOf={(row) => entityAddress(entityOf(kind, row))}
          columns={columnsFor(kind, within, range, new Set(objects.map(({ cluster }) => cluster)).size > 1)}
        />
      </Status>
    </section>
  );
}

/** How many objects are in each state, those with problems first; a click shows only these. */
function States({ of, typed }: { of: readonly ClusterObject[]; typed: string }) {
  const states = [...Map.groupBy(of, ({ state }) => state)];
  if (states.length < 2) return null;
  return (
    <span class="filters" role="group" aria-label="States">
      {states.map(([state, group]) => (
        <Button
          key={state}
          class={`chip ${commonTone(group)}`}
          aria-pressed={typed === state}
          onClick={() => choose({ name: typed === state ? "" : state }, { replace: true })}
          text={`${group.length} ${visible(state)}`}
        />
      ))}
    </span>
  );
}

/** Objects of one state can differ in their health: a running pod may have been restarted a moment ago. */
function commonTone(objects: readonly ClusterObject[]): string {
  const [health, ...others] = new Set(objects.map((object) => object.health));
  return health && others.length === 0 ? `is-${TONES[health]}` : "";
}

function Filter({ title, typed, onlyUnhealthy }: { title: string; typed: string; onlyUnhealthy: boolean }) {
  return (
    <span class="push row">
      <Checkbox
        label="unhealthy only"
        checked={onlyUnhealthy}
        onChange={() => choose({ unhealthy: onlyUnhealthy ? undefined : "1" }, { replace: true })}
      />
      <input
        type="search"
        aria-label={`Filter ${title.toLowerCase()} by name, namespace or state`}
        placeholder="name, namespace, state"
        value={typed}
        onInput={(event) => choose({ name: event.currentTarget.value }, { replace: true })}
      />
    </span>
  );
}

type Columns = Column<ClusterObject>[];

function columnsFor(kind: ObjectKind, within: Entity | undefined, range: AddressRange, hasClusters: boolean): Columns {
  const nameColumn: Columns[number] = {
    head: kind,
    kind: "name",
    order: ({ name }) => name,
    cell: (row) => (
      <>
        <NameLink href={entityAddress(entityOf(kind, row), range)} text={row.name} />
        {row.workload && <span class="quiet"> {row.workload}</span>}
      </>
    ),
  };
  const isWithinNamespace = within !== undefined && within.kind !== "cluster" && within.kind !== "node";
  return [
    nameColumn,
    STATE,
    ...(kind === "pod" ? [LAST_REASON] : []),
    ...(kind === "cluster" ? [count("nodes", ({ nodes }) => nodes)] : []),
    ...(kind === "pod" ? [] : [count("pods", ({ pods }) => pods)]),
    RESTARTS,
    ...(kind === "node" ? NODE_USAGE : USAGE),
    ...((kind === "pod" || kind === "workload") && !isWithinNamespace ? [textColumn("namespace")] : []),
    ...(kind === "pod" && within?.kind !== "node" ? [textColumn("node")] : []),
    ...(kind !== "cluster" && hasClusters ? [textColumn("cluster")] : []),
  ];
}

function textColumn(head: "cluster" | "namespace" | "node"): Columns[number] {
  return { head, order: (row) => row[head], cell: (row) => <span class="quiet">{visible(row[head] ?? "–")}</span> };
}

const STATE: Columns[number] = {
  head: "state",
  order: ({ state }) => state,
  cell: (row) => <StateChip of={row} />,
};

export function StateChip({ of: { state, health, containers, ready } }: { of: ClusterObject }) {
  return <Chip tone={TONES[health]} text={containers === undefined ? state : `${state} ${ready ?? 0}/${containers}`} />;
}

const RESTARTS: Columns[number] = {
  head: "restarts",
  kind: "number",
  order: ({ restarts }) => restarts,
  cell: ({ restarts, recent_restarts: recent }) => (
    <>
      {restarts}
      {recent > 0 && (
        <span class="level is-error" title="in the last hour">
          {" "}
          +{recent}
        </span>
      )}
    </>
  ),
};

const LAST_REASON: Columns[number] = {
  head: "last reason",
  order: ({ last_reason: reason }) => reason,
  cell: (pod) => {
    const why = whyAddress(pod);
    return (
      <>
        {visible(pod.last_reason ?? (why ? "" : "–"))}{" "}
        {why && <ButtonLink class="small" href={why.href} aria-label={`${why.text} of ${visible(pod.name)}`} text={why.text} />}
      </>
    );
  },
};

function count(head: string, of: (row: ClusterObject) => number | undefined): Columns[number] {
  return { head, kind: "number", order: of, cell: (row) => of(row) ?? "–" };
}

/** `38 %` with a small meter. `title`: the figures behind it. `isLimit`: a large share is bad. */
export function Share({ of, title, isLimit = true }: { of: number | undefined; title?: string; isLimit?: boolean }) {
  if (of === undefined) return <span class="quiet">–</span>;
  const percent = Math.round(of * 100);
  const tone = !isLimit ? "" : percent >= 90 ? "is-error" : percent >= 75 ? "is-warn" : "";
  return (
    <span title={title}>
      {percent} %
      <span class={`meter ${tone}`} aria-hidden="true">
        <i style={{ width: `${Math.min(100, percent)}%` }} />
      </span>
    </span>
  );
}

function ratio(used: number | undefined, of: number | undefined): number | undefined {
  return used === undefined || !of ? undefined : used / of;
}

type ShareName = "cpu_share" | "memory_share" | "disk_share";

/** `of`: the field with the share, or two whose ratio it is. */
function share(head: string, of: ShareName | readonly [ShareOf, ShareOf], title: (row: ClusterObject) => string): Columns[number] {
  const valueOf = (row: ClusterObject): number | undefined => (typeof of === "string" ? row[of] : ratio(row[of[0]], row[of[1]]));
  return { head, kind: "number", order: valueOf, cell: (row) => <Share of={valueOf(row)} title={title(row)} /> };
}

type ShareOf = "cpu" | "cpu_request" | "cores";

const cores = (value: number | undefined): string => `${value === undefined ? "unknown" : shortNumber(value)} cores`;
const bytes = (value: number | undefined): string => (value === undefined ? "unknown" : formatValue(value, "bytes"));

const USAGE: Columns = [
  share("CPU of request", ["cpu", "cpu_request"], (row) => `${cores(row.cpu)} of ${cores(row.cpu_request)} requested`),
  share(
    "memory of limit",
    "memory_share",
    (row) => `${bytes(row.memory)}, limit ${bytes(row.memory_limit)}; the share is of the fullest container`,
  ),
];

const NODE_USAGE: Columns = [
  share("CPU", "cpu_share", (row) => `of ${cores(row.cores)}`),
  share("CPU requested", ["cpu_request", "cores"], (row) => `${cores(row.cpu_request)} of ${cores(row.cores)}`),
  share("memory", "memory_share", (row) => `${bytes(row.memory)} by pods`),
  share("fullest disk", "disk_share", () => ""),
];
