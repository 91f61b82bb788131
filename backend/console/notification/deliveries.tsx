// Deliveries of the last 30 days, newest first: which message went to which channel, and whether it was delivered.
import { useSignal } from "@preact/signals";
import { useLoaded, address, choose, route, timestampText, call, wholeList } from "../state/index.ts";
import { listChannels, DELIVERIES, type Delivery } from "./resources.ts";
import { NameLink, Status, type Column, Table, Button, Select, counted, visible } from "../parts/index.ts";

const REFRESH_MS = 10_000;
const REMOVED_CHANNEL = "removed channel";
const STATES = ["delivered", "pending", "failed"] as const;
const COLOUR = { delivered: "is-good", pending: "is-warn", failed: "is-error" } as const;

interface DeliveriesData {
  readonly rows: readonly Delivery[];
  readonly isTruncated: boolean;
  /** Id → name. */
  readonly channels: ReadonlyMap<string, string>;
  readonly rules: ReadonlyMap<string, string>;
}

export function Deliveries() {
  const { query } = route.value;
  const filter = { status: query.get("status") ?? "", channel_id: query.get("channel") ?? "" };
  const search = new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== "")).toString();
  const pages = useSignal(1);
  const loaded = useLoaded(
    `deliveries ${search} ${pages.value}`,
    async (signal) => await readDeliveries(search, pages.peek(), signal),
    // If several pages are loaded, they are not refreshed.
    pages.value === 1 ? { refreshMs: REFRESH_MS } : {},
  );
  const { rows = [], isTruncated = false, channels = new Map<string, string>() } = loaded.value.value ?? {};
  const isChannelRemoved = filter.channel_id !== "" && !channels.has(filter.channel_id);
  return (
    <>
      <div class="bar filters">
        <Select
          label="State"
          value={filter.status}
          onChoose={(status) => (choose({ status }), (pages.value = 1))}
          of={[["", "any"], ...STATES]}
        />
        <Select
          label="Channel"
          of={[["", "any"], ...channels, ...(isChannelRemoved ? [[filter.channel_id, REMOVED_CHANNEL] as const] : [])]}
          value={filter.channel_id}
          onChoose={(channel) => (choose({ channel }), (pages.value = 1))}
        />
        <p role="status">{loaded.value.value && (isTruncated ? `${rows.length}+ messages` : counted(rows.length, "message"))}</p>
      </div>
      <Status of={loaded} empty={rows.length === 0 && <EmptyState isFiltered={search !== ""} />}>
        {loaded.value.value && <Table title="Deliveries, newest first" rows={rows} columns={columnsFor(loaded.value.value)} />}
        {isTruncated && (
          <p>
            <Button onClick={() => pages.value++} text="Load older messages" />
          </p>
        )}
      </Status>
    </>
  );
}

function EmptyState({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered)
    return (
      <p>
        No matching messages in the last 30 days. <a href={address("alerts", { view: "deliveries" })}>Show all</a>
      </p>
    );
  return (
    <p>
      No messages in the last 30 days. A message is sent when an alert fires and a <a href={address("alerts", { view: "routes" })}>route</a>{" "}
      sends it to a <a href={address("alerts", { view: "channels" })}>channel</a>.
    </p>
  );
}

function columnsFor({ channels, rules }: DeliveriesData): Column<Delivery>[] {
  return [
    { head: "time", kind: "timestamp", cell: (delivery) => timestampText(delivery.created_at) },
    { head: "state", cell: (delivery) => <DeliveryState of={delivery} /> },
    { head: "channel", cell: (delivery) => channels.get(delivery.channel_id) ?? REMOVED_CHANNEL },
    { head: "rules", cell: (delivery) => <RuleLinks ids={delivery.rule_ids} rules={rules} /> },
    { head: "attempts", cell: (delivery) => delivery.attempts },
    {
      head: "response",
      class: "answer",
      cell: (delivery) => (delivery.error ? <DeliveryError of={delivery} /> : (delivery.http_status ?? "–")),
    },
    { head: "delivered", kind: "timestamp", cell: (delivery) => (delivery.delivered_at ? timestampText(delivery.delivered_at) : "–") },
  ];
}

function RuleLinks({ ids, rules }: { ids: readonly string[]; rules: ReadonlyMap<string, string> }) {
  if (ids.length === 0) return <>heartbeat</>;
  return (
    <>
      {ids.map((id, at) => (
        <span key={id}>
          {at > 0 && ", "}
          {rules.has(id) ? <NameLink href={address("alerts", { rule: id })} text={rules.get(id) ?? ""} /> : "removed rule"}
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

async function readDeliveries(search: string, pages: number, signal: AbortSignal): Promise<DeliveriesData> {
  const [list, channels, rules] = await Promise.all([
    wholeList<Delivery>(search ? `${DELIVERIES}?${search}` : DELIVERIES, signal, pages),
    listChannels(signal),
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
