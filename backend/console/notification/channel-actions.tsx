// Actions for a channel: send a test, generate a new signing secret.
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { RemoveButton } from "../parts/removal.tsx";
import { timestampText } from "../state/time.ts";
import { type Channel, CHANNELS } from "./resources.ts";
import { Problem } from "../parts/common.tsx";
import { Button } from "../parts/controls.tsx";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { useSending } from "../state/sending.ts";

export interface ChannelActionsProps {
  readonly channel: Channel;
  /** Called with a new signing secret. */
  readonly onSecret: (secret: string) => void;
}

export function ChannelActions({ channel, onSecret }: ChannelActionsProps) {
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
