// Actions for a channel: send a test, generate a new signing secret, remove it.
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { Removal } from "../parts/removal.tsx";
import { moment } from "../state/time.ts";
import { type Channel, CHANNELS } from "./resources.ts";
import { Dialog, Problem } from "../parts/common.tsx";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { useSending } from "../state/sending.ts";

export interface ChannelActionsProps {
  readonly channel: Channel;
  /** Called with a new signing secret. */
  readonly onSecret: (secret: string) => void;
  readonly onRemoved: () => string;
}

export function ChannelActions({ channel, onSecret, onRemoved }: ChannelActionsProps) {
  const hasAsked = useSignal(false);
  return (
    <>
      <Test id={channel.id} />
      <div class="row">
        {channel.kind === "webhook" && (
          <button type="button" onClick={() => (hasAsked.value = true)}>
            Make a new signing secret
          </button>
        )}
        <Removal label="Remove this channel" title="Remove this channel?" path={`${CHANNELS}/${channel.id}`} onRemoved={onRemoved}>
          <bdi>{visible(channel.name)}</bdi> gets no more notifications. This cannot be undone.
        </Removal>
      </div>
      {channel.secret_rotated_at && <p class="quiet">The signing secret was rotated {moment(channel.secret_rotated_at)}.</p>}
      {hasAsked.value && <NewSecret id={channel.id} onSecret={onSecret} onClose={() => (hasAsked.value = false)} />}
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
      <button type="button" onClick={() => void send()}>
        Send a test
      </button>
      <p role="status">
        {isBusy && "Under way …"}
        {delivered === true && <span class="is-good">{status ? `Delivered: the receiver answered ${status}.` : "Delivered."}</span>}
      </p>
      {delivered === false && <Problem words={`Not delivered: ${visible(reason ?? `the receiver answered ${status}`)}`} />}
      <Problem words={error} />
    </section>
  );
}

function NewSecret({ id, onSecret, onClose }: { id: string; onSecret: (secret: string) => void; onClose: () => void }) {
  const { send, error } = useSending(async () => {
    onSecret((await call<{ signing_secret: string }>(`${CHANNELS}/${id}/rotate`, { method: "POST" })).signing_secret);
    onClose();
  });
  return (
    <Dialog title="Make a new signing secret?" onClose={onClose}>
      <p>It is shown once. For a day messages are signed with both: give the receiver the new one until then.</p>
      <Problem words={error} />
      <div class="actions">
        <button type="button" onClick={onClose}>
          Keep the present one
        </button>
        <button type="button" class="primary" onClick={() => void send()}>
          Make it
        </button>
      </div>
    </Dialog>
  );
}
