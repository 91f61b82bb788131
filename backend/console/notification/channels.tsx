// Channels: where notifications are sent, and the result of the last one. Invariant: users who may only read see only the list.
import { useSignal } from "@preact/signals";
import { Side, Split } from "../parts/side.tsx";
import { useLoaded } from "../state/loaded.ts";
import { address, route } from "../state/route.ts";
import { ago } from "../state/time.ts";
import {
  type Channel,
  listChannels,
  DELIVERIES,
  type Delivery,
  kindName,
  parseKind,
  type NotificationRoute,
  ROUTES,
  targetText,
} from "./resources.ts";
import { ChannelActions } from "./channel-actions.tsx";
import { ChannelForm } from "./channel-form.tsx";
import { DeliveryError, DeliveryState } from "./deliveries.tsx";
import { CopyBlock, NameLink, Status } from "../parts/common.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { CreateLink } from "../parts/controls.tsx";
import { counted, visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { mayWrite } from "../state/session.ts";

const REFRESH_MS = 10_000;

interface ChannelsData {
  readonly channels: readonly Channel[];
  /** Channel id → its newest delivery, if that is among the last deliveries to all channels. */
  readonly last: ReadonlyMap<string, Delivery>;
  /** Ids of the channels that a route uses. */
  readonly used: ReadonlySet<string>;
  readonly atMs: number;
}

export function Channels() {
  const loaded = useLoaded("channels", readChannels, { refreshMs: REFRESH_MS });
  // Contains a secret that is shown only once.
  const created = useSignal<Channel | undefined>(undefined);
  const { channels = [] } = loaded.value.value ?? {};
  const id = route.value.query.get("channel");
  const chosen = [...channels, created.value].find((channel) => channel?.id === id);
  const isOpen = mayWrite.value && (chosen !== undefined || id === "new");
  return (
    <>
      <div class="bar">
        <p role="status">{counted(channels.length, "channel")}</p>
        <CreateLink href={address("alerts", { view: "channels", channel: "new" })} text="Create channel" />
      </div>
      <Split
        side={
          isOpen && (
            <ChannelSide
              channel={chosen}
              key={id}
              secret={created.value?.id === id ? created.value?.signing_secret : undefined}
              onCreated={(channel) => (created.value = channel)}
              onChanged={loaded.reload}
            />
          )
        }
      >
        <Status of={loaded} empty={channels.length === 0 && <EmptyState />}>
          {loaded.value.value && (
            <Table title="Channels" rows={channels} columns={columnsFor(loaded.value.value)} isChosen={(channel) => channel.id === id} />
          )}
        </Status>
      </Split>
    </>
  );
}

function EmptyState() {
  return (
    <>
      <p>No channels, so no one is notified of alerts.</p>
      <p>
        {mayWrite.value
          ? "Create a channel, send a test, and create a route that sends alerts to it."
          : "An administrator of your organisation can create channels and routes."}
      </p>
    </>
  );
}

function columnsFor({ last, used, atMs }: ChannelsData): Column<Channel>[] {
  return [
    { head: "channel", kind: "name", cell: (channel) => <Name channel={channel} isUsed={used.has(channel.id)} /> },
    { head: "last message", cell: ({ id }) => <LastDelivery delivery={last.get(id)} atMs={atMs} /> },
    { head: "kind", cell: ({ kind }) => kindName(kind) },
    { head: "to", class: "target", cell: targetText },
    { head: "heartbeat", cell: ({ heartbeat }) => (heartbeat ? `every ${heartbeat}` : "–") },
  ];
}

function Name({ channel: { id, name, enabled }, isUsed }: { channel: Channel; isUsed: boolean }) {
  return (
    <>
      {mayWrite.value ? <NameLink href={address("alerts", { view: "channels", channel: id })} text={name} /> : <bdi>{visible(name)}</bdi>}
      {!enabled && <span class="quiet"> disabled</span>}
      {enabled && !isUsed && <span class="is-warn"> no route uses it</span>}
    </>
  );
}

function LastDelivery({ delivery, atMs }: { delivery: Delivery | undefined; atMs: number }) {
  if (!delivery) return <>–</>;
  return (
    <>
      <DeliveryState of={delivery} />{" "}
      <a href={address("alerts", { view: "deliveries", channel: delivery.channel_id })}>{ago(delivery.created_at, atMs)}</a>{" "}
      <DeliveryError of={delivery} />
    </>
  );
}

interface ChannelSideProps {
  readonly channel: Channel | undefined;
  readonly secret: string | undefined;
  readonly onCreated: (channel: Channel) => void;
  readonly onChanged: () => void;
}

function ChannelSide({ channel, secret, onCreated, onChanged }: ChannelSideProps) {
  const listHref = address("alerts", { view: "channels" });
  const saved = (stored: Channel): string => {
    if (!channel) onCreated(stored);
    onChanged();
    return address("alerts", { view: "channels", channel: stored.id });
  };
  return (
    <Side label={channel ? "Channel" : "New channel"} title={channel?.name ?? "New channel"} onClose={listHref}>
      {secret !== undefined && (
        <>
          <CopyBlock label="Signing secret, not shown again" text={secret} />
          <p class="quiet">The receiver verifies messages with it, using any Standard Webhooks library.</p>
        </>
      )}
      <ChannelForm channel={channel} kind={channel?.kind ?? parseKind(route.value.query.get("kind"))} onSaved={saved} />
      {channel && (
        <ChannelActions
          channel={channel}
          onSecret={(secret) => onCreated({ ...channel, signing_secret: secret })}
          onRemoved={() => (onChanged(), listHref)}
        />
      )}
    </Side>
  );
}

/** Finds the last delivery to each channel in the first page of all deliveries. */
async function readChannels(signal: AbortSignal): Promise<ChannelsData> {
  const [channels, routes, deliveries] = await Promise.all([
    listChannels(signal),
    call<NotificationRoute[]>(ROUTES, { signal }),
    call<Delivery[]>(DELIVERIES, { signal }),
  ]);
  const last = new Map(deliveries.toReversed().map((delivery) => [delivery.channel_id, delivery]));
  return { channels, last, used: new Set(routes.flatMap(({ channel_ids: ids }) => ids)), atMs: Date.now() };
}
