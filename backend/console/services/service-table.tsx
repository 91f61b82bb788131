// Services with rate, errors, p95 and their trends. Every figure links to the items that it counts.
import { Sparkline, Chip, NameLink, type Column, Table, visible } from "../parts/index.ts";
import { address, type AddressRange, span } from "../state/index.ts";
import { rateText, type Service, shareText } from "./service.ts";

export interface ServiceTableProps {
  readonly services: readonly (Service & { readonly worse: number })[];
  /** `from` and `to` in the links of the figures. */
  readonly range: AddressRange;
}

type Row = ServiceTableProps["services"][number];

export function ServiceTable({ services, range }: ServiceTableProps) {
  // A range that ends now has an unfinished last interval, whose counts would look like a drop.
  const finished = <T,>(values: readonly T[]): readonly T[] => (range.to === undefined ? values.slice(0, -1) : values);
  const link = (query: Readonly<Record<string, string>>, text: string, isError = false) => (
    <a class={isError ? "level is-error" : ""} href={address("traces", { ...query, ...range })}>
      {text}
    </a>
  );
  const trendColumn = (head: string, values: (row: Row) => readonly (number | null)[], isBad = false): Column<Row> => ({
    head: <span class="unseen">{head} over time</span>,
    cell: (row) => {
      const colour = isBad && values(row).some(Boolean) ? "is-error" : isBad ? "is-other" : "is-info";
      return <Sparkline values={finished(values(row))} label={`${head} of ${visible(row.service)}`} colour={colour} />;
    },
  });
  return (
    <Table
      title="Services"
      rows={services}
      keyOf={({ service }) => service}
      columns={[
        {
          head: "service",
          kind: "name",
          order: ({ service }) => service,
          cell: ({ service, worse }) => (
            <>
              <NameLink href={address("services", range, service)} text={service} />
              {worse > 0 && (
                <>
                  {" "}
                  <Chip tone="error" text="worse" />
                </>
              )}
            </>
          ),
        },
        { head: "rate", kind: "number", order: ({ rate }) => rate, cell: ({ service, rate }) => link({ service }, rateText(rate)) },
        trendColumn("calls", ({ series }) => series.calls),
        {
          head: "errors",
          kind: "number",
          order: ({ error_ratio: ratio }) => ratio,
          cell: ({ service, error_ratio: ratio }) => link({ service, error: "true" }, shareText(ratio), ratio > 0),
        },
        trendColumn("errors", ({ series }) => series.errors, true),
        {
          head: "p95",
          kind: "number",
          order: ({ p95_ms: ms }) => ms,
          cell: ({ service, p95_ms: ms }) => link({ service, sort: "slowest" }, ms === null ? "–" : span(ms)),
        },
        trendColumn("p95", ({ series }) => series.p95_ms),
      ]}
    />
  );
}
