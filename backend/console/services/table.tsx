// Services with rate, errors, p95 and their trends. Every figure links to the items that it counts.
import { Sparkline } from "../parts/sparkline.tsx";
import { Table } from "../parts/common.tsx";
import { visible } from "../parts/text.ts";
import { address } from "../state/route.ts";
import { type AddressRange, span } from "../state/time.ts";
import { rateText, type Service, shareText } from "./service.ts";

export interface ServiceTableProps {
  readonly services: readonly (Service & { readonly worse: number })[];
  /** `from` and `to` in the links of the figures. */
  readonly range: AddressRange;
}

const over = (what: string) => <span class="unseen">{what} over time</span>;
/** New elements each time: an element of an earlier rendering keeps that rendering's rows in memory. */
const heads = () => ["service", "rate", over("calls"), "errors", over("errors"), "p95", over("p95")];

export function ServiceTable({ services, range }: ServiceTableProps) {
  return (
    <Table title="Services" heads={heads()}>
      {services.map((service) => (
        <ServiceRow key={service.service} service={service} range={range} />
      ))}
    </Table>
  );
}

function ServiceRow({ service, range }: { service: ServiceTableProps["services"][number]; range: ServiceTableProps["range"] }) {
  const { service: name, rate, error_ratio: errors, p95_ms: p95, series } = service;
  const shown = visible(name);
  // A range that ends now has an unfinished last interval, whose counts would look like a drop.
  const finished = <T,>(values: readonly T[]): readonly T[] => (range.to === undefined ? values.slice(0, -1) : values);
  return (
    <tr>
      <th scope="row">
        <a href={address("services", range, name)}>
          <bdi>{shown}</bdi>
        </a>
        {service.worse > 0 && <span class="level is-error"> worse</span>}
      </th>
      <td class="number">
        <a href={address("traces", { service: name, ...range })}>{rateText(rate)}</a>
      </td>
      <td>
        <Sparkline values={finished(series.calls)} label={`calls of ${shown}`} />
      </td>
      <td class="number">
        <a class={errors > 0 ? "level is-error" : ""} href={address("traces", { service: name, error: "true", ...range })}>
          {shareText(errors)}
        </a>
      </td>
      <td>
        <Sparkline values={finished(series.errors)} label={`errors of ${shown}`} colour="is-error" />
      </td>
      <td class="number">
        <a href={address("traces", { service: name, sort: "slowest", ...range })}>{p95 === null ? "–" : span(p95)}</a>
      </td>
      <td>
        <Sparkline values={finished(series.p95_ms)} label={`p95 of ${shown}`} colour="is-warn" />
      </td>
    </tr>
  );
}
