// Service level objectives: the list with error budgets and burn rates, and one objective with its history. Invariant: a bar has the same
// figure as text next to it.
import type { ApiResponses } from "../../client/api.ts";
import { NameLink, Status } from "../parts/common.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Sparkline } from "../parts/sparkline.tsx";
import { counted, visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { address, route } from "../state/route.ts";
import { timestampText } from "../state/time.ts";

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
  { head: "used up in", cell: ({ exhausted_in_s: seconds }) => durationText(seconds) },
];

function SloList() {
  const loaded = useLoaded("slos", (signal) => call<Listed[]>("/query/slos", { signal }), { refreshMs: REFRESH_MS });
  const slos = loaded.value.value ?? [];
  const spent = slos.filter(({ budget_remaining: left }) => left !== null && left <= 0).length;
  return (
    <section class="screen" aria-labelledby="title">
      <div class="bar">
        <h1 id="title">Service level objectives</h1>
      </div>
      <Status of={loaded}>
        <p role="status">
          {counted(slos.length, "objective")}
          {spent > 0 && <strong class="level is-error"> {spent} without error budget</strong>}
        </p>
        {slos
          .filter(({ error }) => error !== null)
          .map(({ id, name, error }) => (
            <p class="quiet" key={id}>
              <bdi>{visible(name)}</bdi>: {visible(error ?? "")}
            </p>
          ))}
        {slos.length === 0 ? (
          <div class="empty">
            No objectives yet. Write one into a file, and run <code>atherops apply -f slos.yaml</code>.
          </div>
        ) : (
          <Table title="Service level objectives" rows={slos} columns={COLUMNS} keyOf={({ id }) => id} />
        )}
      </Status>
    </section>
  );
}

const POINT_COLUMNS: readonly Column<Point>[] = [
  { head: "from", kind: "timestamp", cell: ({ start }) => timestampText(start) },
  { head: "events", kind: "number", cell: ({ total }) => numberText(total) },
  { head: "bad", kind: "number", cell: ({ good, total }) => numberText(total - good) },
  { head: "good", kind: "number", cell: ({ sli }) => percent(sli) },
  { head: "error budget left", kind: "number", cell: ({ budget_remaining: left }) => percent(left) },
];

function SloPage({ id }: { readonly id: string }) {
  const loaded = useLoaded(id, (signal) => call<Report>(`/query/slos/${encodeURIComponent(id)}`, { signal }), { refreshMs: REFRESH_MS });
  const report = loaded.value.value;
  return (
    <section class="screen" aria-labelledby="title">
      <div class="bar">
        <h1 id="title">
          <bdi>{visible(report?.name ?? "Service level objective")}</bdi>
        </h1>
        <a href={address("slos")}>all objectives</a>
        <a href={address("alerts")}>rules and alerts</a>
      </div>
      <Status of={loaded}>{report && <SloReport report={report} />}</Status>
    </section>
  );
}

function SloReport({ report }: { readonly report: Report }) {
  const { history, range, good, total, burn_rates: rates, error } = report;
  return (
    <>
      {report.description !== "" && <p>{visible(report.description)}</p>}
      {error !== null && <p class="quiet">{visible(error)}</p>}
      <dl class="keys">
        <Fact name="target">{targetText(report)}</Fact>
        <Fact name="counts">
          <code>{visible(JSON.stringify(report.indicator))}</code>
        </Fact>
        <Fact name="window">
          {timestampText(range.start)} to {timestampText(range.end)}
        </Fact>
        <Fact name="bad events">
          {numberText(total - good)} of {numberText(total)}; {numberText(report.allowed_bad)} are allowed
        </Fact>
        <Fact name="error budget left">
          <Budget left={report.budget_remaining} name={report.name} />
        </Fact>
        <Fact name="burn rate">
          {Object.entries(rates).map(([window, rate]) => (
            <span key={window}>
              <BurnRate rate={rate} /> in {window}{" "}
            </span>
          ))}
        </Fact>
        <Fact name="used up in">{durationText(report.exhausted_in_s)}</Fact>
      </dl>
      <Sparkline values={history.map((point) => Math.max(0, point.budget_remaining))} label="Error budget left over the window" />
      <Table title="History, newest first" rows={history.toReversed()} columns={POINT_COLUMNS} keyOf={({ start }) => start} />
    </>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Budget({ left, name }: { readonly left: number | null; readonly name: string }) {
  if (left === null) return <span class="quiet">not calculated yet</span>;
  return (
    <span class={left <= 0 ? "level is-error" : undefined}>
      <meter min={0} max={1} low={0.1} high={0.25} optimum={1} value={Math.max(0, left)} aria-label={`error budget of ${visible(name)}`} />{" "}
      {percent(left)}
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

function percent(share: number | null): string {
  return share === null ? "–" : `${Number((share * 100).toPrecision(5))} %`;
}

function numberText(value: number): string {
  return Number(value.toPrecision(4)).toLocaleString("en");
}

function durationText(seconds: number | null): string {
  if (seconds === null) return "never at this rate";
  if (seconds < 2 * 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 2 * 86_400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} days`;
}
