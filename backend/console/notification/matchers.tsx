// Matchers as they are shown, as they are typed, and which of the alerts that fire now they hold for.
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { useLoaded, useSettled } from "../state/loaded.ts";
import { formatMatcher, type Matcher } from "../../client/matcher.ts";
import { matchersRead, matcherWritten } from "./matcher.ts";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";

export const STANDING_ALERTS = "/alerting/alertmanager/api/v2/alerts";

/** A firing alert, with the channels that are notified and the silences that mute it. */
export type StandingAlert = ApiResponses["GET /alerting/alertmanager/api/v2/alerts"][number];

const MOST_NAMED = 5;

export function Matchers({ of }: { of: readonly Matcher[] }) {
  return (
    <ul class="matchers">
      {of.map((matcher) => (
        <li key={matcherWritten(matcher)}>
          <bdi>{visible(matcherWritten(matcher))}</bdi>
        </li>
      ))}
    </ul>
  );
}

/** `none`: describes the effect of an empty list. */
export function MatchersField({ written, none }: { written: string; none?: string }) {
  const text = useSignal(written);
  return (
    <>
      <label>
        Matchers, one per line; all must match{none ? `; none: ${none}` : ""}
        <textarea
          name="matchers"
          rows={Math.min(8, Math.max(3, written.split("\n").length))}
          required={!none}
          spellcheck={false}
          placeholder={'severity="critical"\ninstance=~"db-.*"'}
          defaultValue={written}
          onInput={(event) => (text.value = event.currentTarget.value)}
        />
      </label>
      <Held text={text.value} />
    </>
  );
}

/** The firing alerts that match, read after a pause in typing. */
function Held({ text }: { text: string }) {
  const asked = useSettled(text);
  const found = useLoaded(`held ${asked}`, async (signal) => {
    const query = matchersRead(asked).map((matcher) => ["filter", formatMatcher(matcher)] as const);
    return await call<StandingAlert[]>(STANDING_ALERTS, { query, signal });
  });
  const alerts = found.value.value;
  // Alerts that match earlier matchers are not shown.
  const isCurrent = asked === text && !found.busy.value;
  const words = found.error.value ?? (alerts && heldWords(alerts));
  return (
    <p role="status" class={isCurrent && found.error.value ? "problem" : "quiet"}>
      <bdi>{visible((isCurrent && words) || "…")}</bdi>
    </p>
  );
}

function heldWords(alerts: readonly StandingAlert[]): string {
  if (alerts.length === 0) return "They match no firing alert.";
  const names = [...new Set(alerts.map(({ labels }) => labels["alertname"] ?? ""))];
  const more = names.length > MOST_NAMED ? ", …" : "";
  return `They match ${alerts.length} firing ${alerts.length === 1 ? "alert" : "alerts"}: ${names.slice(0, MOST_NAMED).join(", ")}${more}`;
}
