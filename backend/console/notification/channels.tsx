// Channels: where notifications are sent, and the result of the last one. Invariant: users who may only read see just the list.
import { useSignal } from "@preact/signals";
import { Side } from "../parts/side.tsx";
import { useLoaded } from "../state/loaded.ts";
import { address, route } from "../state/route.ts";
import { ago } from "../state/time.ts";
import {
  type Channel,
  channelsNow,
  DELIVERIES,
  type Delivery,
  kindName,
  kindOf,
  type NotificationRoute,
  ROUTES,
  targetOf,
} from "./resources.ts";
import { ChannelActions } from "./channel-actions.tsx";
import { ChannelForm } from "./channel-form.tsx";
import { DeliveryError, DeliveryState } from "./deliveries.tsx";
import { Command, Status, Table } from "../parts/common.tsx";
import { counted, visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { mayWrite } from "../state/session.ts";

const EVERY_MS = 10_000;

interface Shown {
  readonly channels: readonly Channel[];
  /** The newest delivery to each channel, if it is among the last ones of all channels. */
  readonly last: ReadonlyMap<string, Delivery>;
  /** Channels that a route uses. */
  readonly used: ReadonlySet<string>;
  readonly atMs: number;
}

export function Channels() {
  const found = useLoaded("channels", channelsShown, { everyMs: EVERY_MS });
  // Contains a secret that is shown only once.
  const made = useSignal<Channel | undefined>(undefined);
  const { channels = [] } = found.value.value ?? {};
  const id = route.value.query.get("channel");
  const chosen = [...channels, made.value].find((channel) => channel?.id === id);
  const isOpen = mayWrite.value && (chosen !== undefined || id === "new");
  return (
    <>
      <div class="bar">
        <p role="status">{counted(channels.length, "channel")}</p>
        {mayWrite.value && (
          <a class="button primary" href={address("alerts", { view: "channels", channel: "new" })}>
            Add a channel
          </a>
        )}
      </div>
      <div class={`split ${isOpen ? "with-side" : ""}`}>
        <div>
          <Status of={found} empty={channels.length === 0 && <Nothing />}>
            {found.value.value && channels.length > 0 && <ChannelTable {...found.value.value} chosen={id} />}
          </Status>
        </div>
        {isOpen && (
          <ChannelSide
            channel={chosen}
            key={id}
            secret={made.value?.id === id ? made.value?.signing_secret : undefined}
            onMade={(channel) => (made.value = channel)}
            onChanged={found.reload}
          />
        )}
      </div>
    </>
  );
}

function Nothing() {
  return (
    <>
      <p>There are no channels, so no one is notified of alerts.</p>
      <p>
        {mayWrite.value
          ? "Add one, send a test, and add a route that sends alerts to it."
          : "An administrator of the organisation can add one, and a route that sends alerts to it."}
      </p>
    </>
  );
}

function ChannelTable({ channels, last, used, atMs, chosen }: Shown & { chosen: string | null }) {
  return (
    <Table title="Channels" heads={["channel", "last message", "kind", "to", "heartbeat"]}>
      {channels.map((channel) => (
        <tr key={channel.id} class={channel.id === chosen ? "is-chosen" : ""}>
          <th scope="row">
            <Name channel={channel} />
            {!channel.enabled && <span class="quiet"> is off</span>}
            {channel.enabled && !used.has(channel.id) && <span class="is-warn"> no route uses it</span>}
          </th>
          <td>
            <Last of={last.get(channel.id)} atMs={atMs} />
          </td>
          <td>{kindName(channel.kind)}</td>
          <td class="target">
            <bdi>{visible(targetOf(channel))}</bdi>
          </td>
          <td>{channel.heartbeat ? `every ${channel.heartbeat}` : "–"}</td>
        </tr>
      ))}
    </Table>
  );
}

function Name({ channel: { id, name } }: { channel: Channel }) {
  const words = <bdi>{visible(name)}</bdi>;
  return mayWrite.value ? <a href={address("alerts", { view: "channels", channel: id })}>{words}</a> : words;
}

function Last({ of, atMs }: { of: Delivery | undefined; atMs: number }) {
  if (!of) return <>–</>;
  return (
    <>
      <DeliveryState of={of} /> <a href={address("alerts", { view: "deliveries", channel: of.channel_id })}>{ago(of.created_at, atMs)}</a>{" "}
      <DeliveryError of={of} />
    </>
  );
}

interface ChannelSideProps {
  readonly channel: Channel | undefined;
  readonly secret: string | undefined;
  readonly onMade: (channel: Channel) => void;
  readonly onChanged: () => void;
}

function ChannelSide({ channel, secret, onMade, onChanged }: ChannelSideProps) {
  const closed = address("alerts", { view: "channels" });
  const saved = (now: Channel): string => {
    if (!channel) onMade(now);
    onChanged();
    return address("alerts", { view: "channels", channel: now.id });
  };
  return (
    <Side label={channel ? "Channel" : "New channel"} title={channel?.name ?? "New channel"} closed={closed}>
      {secret !== undefined && (
        <>
          <Command label="The signing secret, shown this once" text={secret} />
          <p class="quiet">The receiver verifies messages with it, using any library of Standard Webhooks.</p>
        </>
      )}
      <ChannelForm channel={channel} kind={channel?.kind ?? kindOf(route.value.query.get("kind"))} onSaved={saved} />
      {channel && (
        <ChannelActions
          channel={channel}
          onSecret={(made) => onMade({ ...channel, signing_secret: made })}
          onRemoved={() => (onChanged(), closed)}
        />
      )}
    </Side>
  );
}

/** The last delivery to each channel is taken from the first page of all deliveries, newest first. */
async function channelsShown(signal: AbortSignal): Promise<Shown> {
  const [channels, routes, deliveries] = await Promise.all([
    channelsNow(signal),
    call<NotificationRoute[]>(ROUTES, { signal }),
    call<Delivery[]>(DELIVERIES, { signal }),
  ]);
  const last = new Map(deliveries.toReversed().map((delivery) => [delivery.channel_id, delivery]));
  return { channels, last, used: new Set(routes.flatMap(({ channel_ids: ids }) => ids)), atMs: Date.now() };
}
