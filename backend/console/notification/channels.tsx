// Channels: where notifications are sent, and the result of the last one. Invariant: users who may only read see only the list.
import { useSignal } from "@preact/signals";
import { EditableList, EditLink, CopyBlock, Problem, type Column, counted, visible, RemoveButton, Button } from "../parts/index.ts";
import { useLoaded, address, route, ago, timestampText, call, mayWrite, useSending } from "../state/index.ts";
import { CHANNELS, listChannels, DELIVERIES, kindName, parseKind, ROUTES, targetText } from "./resources.ts";
import type { Channel, Delivery, NotificationRoute } from "./resources.ts";
import { ChannelForm } from "./channel-form.tsx";
import { DeliveryError, DeliveryState } from "./deliveries.tsx";
import type { ApiResponses } from "../../client/api.ts";

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
  /** The signing secret, which the API returns only once. */
  const secret = useSignal<{ readonly id: string; readonly text: string | undefined } | undefined>(undefined);
  const keepSecret = ({ id, signing_secret: text }: Pick<Channel, "id" | "signing_secret">): void => void (secret.value = { id, text });
  const { channels = [] } = loaded.value.value ?? {};
  return (
    <EditableList
      noun="channel"
      list={{ view: "channels" }}
      loaded={loaded}
      rows={channels}
      title="Channels"
      columns={loaded.value.value ? columnsFor(loaded.value.value) : []}
      status={counted(channels.length, "channel")}
      empty={channels.length === 0 && <EmptyState />}
      headingOf={({ name }) => name}
      removal={({ id, name }) => ({
        path: `${CHANNELS}/${id}`,
        text: visible(`${name} receives no more notifications. This cannot be undone.`),
      })}
      form={(channel, saved) => (
        <>
          {channel && secret.value?.id === channel.id && secret.value.text !== undefined && (
            <>
              <CopyBlock label="Signing secret, not shown again" text={secret.value.text} />
              <p class="quiet">The receiver verifies messages with it, using any Standard Webhooks library.</p>
            </>
          )}
          <ChannelForm
            channel={channel}
            kind={channel?.kind ?? parseKind(route.value.query.get("kind"))}
            onSaved={(stored) => {
              if (!channel) keepSecret(stored);
              return saved(stored);
            }}
          />
          {channel && <ChannelActions channel={channel} onSecret={(text) => keepSecret({ id: channel.id, signing_secret: text })} />}
        </>
      )}
    />
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
      <EditLink href={address("alerts", { view: "channels", channel: id })} text={name} />
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

interface ChannelActionsProps {
  readonly channel: Channel;
  /** Called with a new signing secret. */
  readonly onSecret: (secret: string) => void;
}

function ChannelActions({ channel, onSecret }: ChannelActionsProps) {
  return (
    <>
      <Test id={channel.id} />
      {channel.kind === "webhook" && (
        <p class="row">
          <RemoveButton
            label="Rotate signing secret"
            class=""
            path={`${CHANNELS}/${channel.id}/rotate`}
            method="POST"
            onRemoved={(response) => onSecret((response as { signing_secret: string }).signing_secret)}
          >
            The new secret is shown once. For 24 hours, messages are signed with both secrets: configure the new one in the receiver within
            this time.
          </RemoveButton>
        </p>
      )}
      {channel.secret_rotated_at && <p class="quiet">The signing secret was rotated {timestampText(channel.secret_rotated_at)}.</p>}
    </>
  );
}

type TestResult = ApiResponses["POST /alerting/channels/{id}/test"];

/** Sends a message through the same path as alerts, and shows the receiver's response. */
function Test({ id }: { id: string }) {
  const result = useSignal<TestResult | undefined>(undefined);
  const { send, isBusy, error } = useSending(async () => {
    result.value = undefined;
    result.value = await call<TestResult>(`${CHANNELS}/${id}/test`, { method: "POST" });
  });
  const { delivered, status, error: reason } = result.value ?? {};
  return (
    <section aria-label="Test" class="test">
      <Button onClick={() => void send()} text="Send test" />
      <p role="status">
        {isBusy && "Sending …"}
        {delivered === true && <span class="is-good">{status ? `Delivered: the receiver answered ${status}.` : "Delivered."}</span>}
      </p>
      {delivered === false && <Problem message={`Not delivered: ${visible(reason ?? `the receiver answered ${status}`)}`} />}
      <Problem message={error} />
    </section>
  );
}
