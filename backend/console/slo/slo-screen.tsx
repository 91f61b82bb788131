// Service level objectives: the list with error budgets and burn rates, and one objective with its history; both are edited in a panel next
// to them. Invariant: a bar has the same figure as text next to it.
import { Bar, Facts, NameLink, Status, CreateLink, RemoveButton, Side, Split, Table, counted, visible } from "../parts/index.ts";
import type { Column } from "../parts/index.ts";
import type { ApiResponses } from "../../client/api.ts";
import { Chart } from "../metrics/chart.tsx";
import { call, useLoaded, address, route, mayWrite, timestampText } from "../state/index.ts";
import { indicatorText, SloForm, SLOS } from "./slo-form.tsx";

type Listed = ApiResponses["GET /query/slos"][number];
type Report = ApiResponses["GET /query/slos/{id}"];
type Point = Report["history"][number];

const REFRESH_MS = 30_000;

export function SloScreen() {
  const { id } = route.value;
  return id === undefined || id === "" ? <SloList /> : <SloPage id={id} />;
}

const COLUMNS: readonly Column<Listed>[] = [
  { head: "objective", kind: "name", cell: ({ id, name }) => <NameLink href={address("slos", {}, id)} text={name} /> },
  { head: "target", cell: targetText },
  { head: "good", kind: "number", order: ({ sli }) => sli, cell: ({ sli }) => percent(sli) },
  {
    head: "error budget left",
    order: ({ budget_remaining: left }) => left,
    cell: ({ budget_remaining: left, name }) => <Budget left={left} name={name} />,
  },
  { head: "burn rate (1h)", kind: "number", order: ({ burn_rate: rate }) => rate, cell: ({ burn_rate: rate }) => <BurnRate rate={rate} /> },
  { head: "used up in", cell: usedUpText },
];

/** With the least error budget first. */
function SloList() {
  const loaded = useLoaded("slos", (signal) => call<Listed[]>("/query/slos", { signal }), { refreshMs: REFRESH_MS });
  const slos = (loaded.value.value ?? []).toSorted((a, b) => (a.budget_remaining ?? 2) - (b.budget_remaining ?? 2));
  const spent = slos.filter(({ budget_remaining: left }) => left !== null && left <= 0).length;
  return (
    <section class="screen slos" aria-labelledby="title">
      <Bar title="Service level objectives">
        <CreateLink href={address("slos", { edit: "new" })} text="Create objective" />
      </Bar>
      {slos.length > 0 && (
        <p role="status">
          {counted(slos.length, "objective")}, with figures of the last four minutes
          {spent > 0 && (
            <>
              , <strong class="level is-error">{spent} without error budget</strong>
            </>
          )}
        </p>
      )}
      <Split
        side={
          isEdited() && (
            <Side label="New objective" title="New objective" onClose={address("slos")}>
              <SloForm />
            </Side>
          )
        }
      >
        <Status
          of={loaded}
          empty={
            slos.length === 0 && (
              <p>
                No objectives. Create one, or apply a file with <code>atherops apply -f slos.yaml</code>.
              </p>
            )
          }
        >
          {slos
            .filter(({ error }) => error !== null)
            .map(({ id, name, error }) => (
              <p class="quiet" key={id}>
                <bdi>{visible(name)}</bdi>: {visible(error ?? "")}
              </p>
            ))}
          <Table title="Service level objectives" rows={slos} columns={COLUMNS} />
        </Status>
      </Split>
    </section>
  );
}

function isEdited(): boolean {
  return mayWrite.value && route.value.query.get("edit") !== null;
}

const POINT_COLUMNS: readonly Column<Point>[] = [
  { head: "from", kind: "timestamp", cell: ({ start }) => timestampText(start) },
  { head: "events", kind: "number", cell: ({ total }) => numberText(total) },
  { head: "bad", kind: "number", cell: ({ good, total }) => numberText(total - good) },
  { head: "good", kind: "number", cell: ({ sli }) => percent(sli) },
  { head: "error budget left", kind: "number", cell: ({ budget_remaining: left }) => percent(left, 3) },
];

function SloPage({ id }: { readonly id: string }) {
  const loaded = useLoaded(id, (signal) => call<Report>(`/query/slos/${encodeURIComponent(id)}`, { signal }), { refreshMs: REFRESH_MS });
  const report = loaded.value.value;
  return (
    <section class="screen slos" aria-labelledby="title">
      <Bar title={report?.name ?? "Service level objective"}>
        <a href={address("slos")}>All objectives</a>
        <a href={address("alerts", { all: "1" })}>Rules and alerts</a>
        <CreateLink href={address("slos", { edit: "1" }, id)} text="Edit" />
      </Bar>
      <Split
        side={
          report &&
          isEdited() && (
            <Side label="Objective" title="Edit objective" onClose={address("slos", {}, id)}>
              <SloForm slo={report} onSaved={loaded.reload} />
              <RemoveButton label="Remove objective" path={`${SLOS}/${id}`} onRemoved={() => address("slos")}>
                Its alert rules are removed, too. This cannot be undone.
              </RemoveButton>
            </Side>
          )
        }
      >
        <Status of={loaded}>{report && <SloReport report={report} />}</Status>
      </Split>
    </section>
  );
}

function SloReport({ report }: { readonly report: Report }) {
  const { history, range, good, total, burn_rates: rates, error } = report;
  const left = history.map((point) => [Date.parse(point.end) / 1000, point.budget_remaining] as const);
  return (
    <div class="stack">
      {report.description !== "" && <p>{visible(report.description)}</p>}
      {error !== null && <p class="quiet">{visible(error)}</p>}
      <div class="card">
        <Facts
          of={[
            ["target", targetText(report)],
            ["counts", <bdi>{visible(indicatorText(report.indicator))}</bdi>],
            ["bad events", `${numberText(total - good)} of ${numberText(total)}; ${numberText(report.allowed_bad)} are allowed`],
            ["error budget left", <Budget left={report.budget_remaining} name={report.name} />],
            ["used up in", usedUpText(report)],
            [
              `burn rate (${Object.keys(rates).join(", ")})`,
              Object.entries(rates).map(([window, rate], at) => (
                <span key={window}>
                  {at > 0 && ", "}
                  <BurnRate rate={rate} />
                </span>
              )),
            ],
          ]}
        />
      </div>
      <div class="card">
        <h2>Error budget left</h2>
        <Chart
          series={[{ name: "error budget left", short: "error budget left", colour: "--info", points: left }]}
          range={{ fromMs: Date.parse(range.start), toMs: Date.parse(range.end) }}
          unit="percentunit"
          heightPx={200}
        />
      </div>
      <Table
        title="History, newest first"
        rows={history.filter((point) => point.total > 0).toReversed()}
        columns={POINT_COLUMNS}
        keyOf={({ start }) => start}
      />
    </div>
  );
}

function Budget({ left, name }: { readonly left: number | null; readonly name: string }) {
  if (left === null) return <span class="quiet">not calculated yet</span>;
  return (
    <span class={left <= 0 ? "level is-error" : undefined}>
      <meter min={0} max={1} low={0.1} high={0.25} optimum={1} value={Math.max(0, left)} aria-label={`error budget of ${visible(name)}`} />{" "}
      {percent(left, 3)}
    </span>
  );
}

function BurnRate({ rate }: { readonly rate: number | null | undefined }) {
  if (rate == null) return null;
  return <span class={rate > 1 ? "level is-warn" : undefined}>{numberText(rate)}</span>;
}

function targetText({ objective, window }: Pick<Listed, "objective" | "window">): string {
  return `${objective} % in ${window === "month" ? "a month" : window}`;
}

function percent(share: number | null, digits = 5): string {
  return share === null ? "–" : `${Number((share * 100).toPrecision(digits))} %`;
}

function numberText(value: number): string {
  return Number(value.toPrecision(4)).toLocaleString("en");
}

function usedUpText({ budget_remaining: left, exhausted_in_s: seconds }: Pick<Listed, "budget_remaining" | "exhausted_in_s">): string {
  if (left !== null && left <= 0) return "used up";
  if (seconds === null) return "never at this rate";
  if (seconds < 2 * 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 2 * 86_400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} days`;
}
