// Deliveries of the last 30 days, newest first: which message went to which channel, and whether it was delivered.
import { useSignal } from "@preact/signals";
import { useLoaded } from "../state/loaded.ts";
import { address, choose, route } from "../state/route.ts";
import { moment } from "../state/time.ts";
import { channelsNow, DELIVERIES, type Delivery } from "./resources.ts";
import { NameLink, Options, Status, Table } from "../parts/common.tsx";
import { counted, visible } from "../parts/text.ts";
import { call, wholeList } from "../state/api.ts";

const EVERY_MS = 10_000;
const STATES = ["delivered", "pending", "failed"] as const;
const COLOUR = { delivered: "is-good", pending: "is-warn", failed: "is-error" } as const;

interface Shown {
  readonly rows: readonly Delivery[];
  readonly isCut: boolean;
  /** Id → name. */
  readonly channels: ReadonlyMap<string, string>;
  readonly rules: ReadonlyMap<string, string>;
}

export function Deliveries() {
  const { query } = route.value;
  const filter = { status: query.get("status") ?? "", channel_id: query.get("channel") ?? "" };
  const asked = new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== "")).toString();
  const pages = useSignal(1);
  const found = useLoaded(
    `deliveries ${asked} ${pages.value}`,
    async (signal) => await deliveriesShown(asked, pages.peek(), signal),
    // If several pages are loaded, they are not refreshed.
    pages.value === 1 ? { everyMs: EVERY_MS } : {},
  );
  const { rows = [], isCut = false, channels = new Map<string, string>() } = found.value.value ?? {};
  return (
    <>
      <div class="bar filters">
        <label>
          State
          <select value={filter.status} onChange={(event) => (choose({ status: event.currentTarget.value }), (pages.value = 1))}>
            <Options of={[["", "any"], ...STATES]} />
          </select>
        </label>
        <label>
          Channel
          <select value={filter.channel_id} onChange={(event) => (choose({ channel: event.currentTarget.value }), (pages.value = 1))}>
            <Options of={[["", "any"], ...channels]} />
            {filter.channel_id && !channels.has(filter.channel_id) && <option value={filter.channel_id}>one that is gone</option>}
          </select>
        </label>
        <p role="status">{isCut ? `${rows.length} and more messages` : counted(rows.length, "message")}</p>
      </div>
      <Status of={found} empty={rows.length === 0 && <Nothing isFiltered={asked !== ""} />}>
        {found.value.value && rows.length > 0 && <DeliveryTable {...found.value.value} />}
        {isCut && (
          <p>
            <button type="button" onClick={() => pages.value++}>
              Older ones
            </button>
          </p>
        )}
      </Status>
    </>
  );
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered)
    return (
      <p>
        No such message in the last 30 days. <a href={address("alerts", { view: "deliveries" })}>Show all</a>
      </p>
    );
  return (
    <p>
      Nothing was sent in the last 30 days. Messages go out when an alert fires that a{" "}
      <a href={address("alerts", { view: "routes" })}>route</a> leads to a <a href={address("alerts", { view: "channels" })}>channel</a>.
    </p>
  );
}

function DeliveryTable({ rows, channels, rules }: Shown) {
  return (
    <Table title="Deliveries, newest first" heads={["time", "state", "channel", "about", "attempts", "answer", "delivered"]}>
      {rows.map((delivery) => (
        <tr key={delivery.id}>
          <td class="moment">{moment(delivery.created_at)}</td>
          <td>
            <DeliveryState of={delivery} />
          </td>
          <td>
            <bdi>{visible(channels.get(delivery.channel_id) ?? "one that is gone")}</bdi>
          </td>
          <td>
            <About ids={delivery.rule_ids} rules={rules} />
          </td>
          <td>{delivery.attempts}</td>
          <td class="answer">{delivery.error ? <DeliveryError of={delivery} /> : (delivery.http_status ?? "–")}</td>
          <td class="moment">{delivery.delivered_at ? moment(delivery.delivered_at) : "–"}</td>
        </tr>
      ))}
    </Table>
  );
}

function About({ ids, rules }: { ids: readonly string[]; rules: ReadonlyMap<string, string> }) {
  if (ids.length === 0) return <>heartbeat</>;
  return (
    <>
      {ids.map((id, at) => (
        <span key={id}>
          {at > 0 && ", "}
          {rules.has(id) ? <NameLink href={address("alerts", { rule: id })} text={rules.get(id) ?? ""} /> : "a rule that is gone"}
        </span>
      ))}
    </>
  );
}

interface Named {
  readonly id: string;
  readonly name: string;
}

function namesById(resources: readonly Named[]): Map<string, string> {
  return new Map(resources.map(({ id, name }) => [id, name]));
}

async function deliveriesShown(asked: string, pages: number, signal: AbortSignal): Promise<Shown> {
  const [list, channels, rules] = await Promise.all([
    wholeList<Delivery>(asked ? `${DELIVERIES}?${asked}` : DELIVERIES, signal, pages),
    channelsNow(signal),
    call<Named[]>("/alerting/rules", { signal }),
  ]);
  return { ...list, channels: namesById(channels), rules: namesById(rules) };
}

export function DeliveryState({ of: { status } }: { of: Pick<Delivery, "status"> }) {
  return <span class={`level ${COLOUR[status]}`}>{status}</span>;
}

/** Why the last attempt failed; nothing if it succeeded. */
export function DeliveryError({ of: { error } }: { of: Pick<Delivery, "error"> }) {
  if (!error) return null;
  return (
    <span class="problem">
      <bdi>{visible(error)}</bdi>
    </span>
  );
}
