// Which routes and channels an alert with these labels would take, whether or not there is one. The backend matches them.
import { useSignal } from "@preact/signals";
import { Status, Card, TextArea, visible } from "../parts/index.ts";
import { parsePairs } from "../alerts/console-rule.ts";
import { call, useDebounced, useLoaded } from "../state/index.ts";
import { formatVisibleMatcher } from "./matcher.ts";
import { type Channel, type NotificationRoute, ROUTES } from "./resources.ts";

/** `typed`: labels, one name=value per line, asked for after a pause in typing. */
export function TakenRoutes({ typed, channels }: { typed: string; channels: readonly Channel[] }) {
  const text = useDebounced(typed);
  const loaded = useLoaded(`routes of ${text}`, async (signal) => {
    return await call<NotificationRoute[]>(`${ROUTES}/test`, { method: "POST", body: { labels: parsePairs(text) }, signal });
  });
  const nameOf = (id: string): string => channels.find((channel) => channel.id === id)?.name ?? id;
  return (
    <div role="status">
      <Status of={loaded}>
        <ul class="plain-list">
          {loaded.value.value?.map(({ id, position, is_default: isDefault, matchers, channel_ids: ids }) => (
            <li key={id}>
              <strong>{ids.length > 0 ? visible(ids.map(nameOf).join(", ")) : "no one"}</strong>
              <span class="quiet">
                {isDefault
                  ? "by the default route"
                  : `by route ${position + 1}: ${matchers.map(formatVisibleMatcher).join(" ") || "all alerts"}`}
              </span>
            </li>
          ))}
        </ul>
      </Status>
    </div>
  );
}

export function RouteTest({ channels }: { channels: readonly Channel[] }) {
  const typed = useSignal("severity=critical");
  return (
    <Card title="Who would be notified?">
      <div class="stack">
        <TextArea
          label="Labels of an invented alert, one name=value per line"
          rows={3}
          spellcheck={false}
          defaultValue={typed.peek()}
          onInput={(event) => (typed.value = event.currentTarget.value)}
        />
        <TakenRoutes typed={typed.value} channels={channels} />
      </div>
    </Card>
  );
}
