// Shows matchers, and the field for them, which lists the firing alerts that match what the user types.
import { TextArea, counted, visible } from "../parts/index.ts";
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { useLoaded, useDebounced, call } from "../state/index.ts";
import { formatMatcher, type Matcher } from "../../client/matcher.ts";
import { parseMatchers, formatVisibleMatcher } from "./matcher.ts";

export const ROUTED_ALERTS = "/alerting/alertmanager/api/v2/alerts";

/** A firing alert, with the channels that are notified and the silences that mute it. */
export type RoutedAlert = ApiResponses["GET /alerting/alertmanager/api/v2/alerts"][number];

const MAX_NAMED = 5;

export function Matchers({ of }: { of: readonly Matcher[] }) {
  return (
    <ul class="matchers">
      {of.map((matcher) => (
        <li key={formatVisibleMatcher(matcher)}>
          <bdi>{visible(formatVisibleMatcher(matcher))}</bdi>
        </li>
      ))}
    </ul>
  );
}

interface MatchersFieldProps {
  readonly initial: string;
  /** The effect of an empty list; without it, the list must not be empty. */
  readonly none?: string;
  readonly label?: string;
  readonly name?: string;
}

export function MatchersField({ initial, none, label = "Matchers", name = "matchers" }: MatchersFieldProps) {
  const text = useSignal(initial);
  return (
    <>
      <TextArea
        label={`${label}, one per line; all must match${none ? `; empty: ${none}` : ""}`}
        name={name}
        rows={Math.min(8, Math.max(3, initial.split("\n").length))}
        required={!none}
        placeholder={'severity="critical"\ninstance=~"db-.*"'}
        defaultValue={initial}
        onInput={(event) => (text.value = event.currentTarget.value)}
      />
      <MatchingAlerts text={text.value} />
    </>
  );
}

/** The firing alerts that match, read after a pause in typing. */
function MatchingAlerts({ text }: { text: string }) {
  const debouncedText = useDebounced(text);
  const loaded = useLoaded(`matching ${debouncedText}`, async (signal) => {
    const filter = parseMatchers(debouncedText).map(formatMatcher);
    return await call<RoutedAlert[]>(ROUTED_ALERTS, { query: { filter }, signal });
  });
  const alerts = loaded.value.value;
  // Alerts that match earlier matchers are not shown.
  const isCurrent = debouncedText === text && !loaded.busy.value;
  const resultText = loaded.error.value ?? (alerts && matchingText(alerts));
  return (
    <p role="status" class={isCurrent && loaded.error.value ? "problem" : "quiet"}>
      <bdi>{visible((isCurrent && resultText) || "…")}</bdi>
    </p>
  );
}

function matchingText(alerts: readonly RoutedAlert[]): string {
  if (alerts.length === 0) return "No firing alert matches.";
  const names = [...new Set(alerts.map(({ labels }) => labels["alertname"] ?? ""))];
  const more = names.length > MAX_NAMED ? ", …" : "";
  return `Matches ${counted(alerts.length, "firing alert")}: ${names.slice(0, MAX_NAMED).join(", ")}${more}`;
}
