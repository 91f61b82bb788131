// Compares the messages that Alertmanager and the notification sent about the same groups. A message is reduced to what it newly says: the
// alerts whose state differs from that in the earlier messages of the group. A message without such an alert is a repetition.
import type { AlertmanagerResult, ReceivedMessage } from "./alertmanager.ts";

export interface GroupComparison {
  readonly receiver: string;
  readonly labels: string;
  readonly alertmanager: string;
  readonly atherops: string;
  readonly differences: readonly DifferenceKind[];
}

export type DifferenceKind = keyof typeof DIFFERENCES;

/** Kind of a difference → its reason. */
export const DIFFERENCES = {
  "repeated resolution":
    "Alertmanager's repetitions contain again the alerts whose end it has already sent, because vmalert posts a resolved alert for 15 minutes. AtherOps sends each end once.",
  "time of repetitions":
    "Alertmanager looks at a group only every `group_interval`, so it repeats at the first multiple of it after `repeat_interval`. AtherOps repeats after `repeat_interval`.",
  "end of a silenced alert":
    "Alertmanager sends nothing about a silenced alert. AtherOps sends its end if it has sent its beginning, so that an incident does not stay open.",
  other: "not expected",
} as const;

/** Messages of both sides may be this far apart: the interval of the scenario, because each side counts it from its own first message. */
const TOLERANCE_S = 10;

interface Change {
  readonly atS: number;
  /** State and alert, of each alert whose state has changed. */
  readonly alerts: readonly string[];
}

export function compareGroups({ alertmanager, atherops }: AlertmanagerResult): GroupComparison[] {
  const keyOf = ({ receiver, labels }: ReceivedMessage): string => JSON.stringify([receiver, labels]);
  const [theirs, ours] = [Map.groupBy(alertmanager, keyOf), Map.groupBy(atherops, keyOf)];
  return [...new Set([...theirs.keys(), ...ours.keys()])].toSorted().map((key) => {
    const [receiver, labels] = JSON.parse(key) as [string, string];
    const [first, second] = [theirs.get(key) ?? [], ours.get(key) ?? []];
    return { receiver, labels, alertmanager: describe(first), atherops: describe(second), differences: differencesOf(first, second) };
  });
}

function differencesOf(theirs: readonly ReceivedMessage[], ours: readonly ReceivedMessage[]): DifferenceKind[] {
  const [first, second] = [readMessages(theirs), readMessages(ours)];
  const kinds = new Set<DifferenceKind>();
  if (first.repeatsResolved) kinds.add("repeated resolution");
  if (first.repetitions > 0 || second.repetitions > 0) kinds.add("time of repetitions");
  let at = 0;
  for (const change of second.changes) {
    const other = first.changes[at];
    if (other && isSame(change, other)) at += 1;
    else kinds.add(change.alerts.every((alert) => alert.startsWith("resolved")) ? "end of a silenced alert" : "other");
  }
  if (at < first.changes.length || theirs[0]?.common !== ours[0]?.common) kinds.add("other");
  return [...kinds];
}

function isSame(one: Change, other: Change): boolean {
  return Math.abs(one.atS - other.atS) <= TOLERANCE_S && one.alerts.join("\n") === other.alerts.join("\n");
}

function readMessages(messages: readonly ReceivedMessage[]): { changes: Change[]; repetitions: number; repeatsResolved: boolean } {
  const known = new Map<string, string>();
  const changes: Change[] = [];
  let [repetitions, repeatsResolved] = [0, false];
  for (const { atS, alerts } of messages) {
    const changed = alerts.filter((text) => {
      const [state, alert] = split(text);
      const isNew = known.get(alert) !== state;
      repeatsResolved ||= !isNew && state === "resolved";
      known.set(alert, state);
      return isNew;
    });
    if (changed.length === 0) repetitions += 1;
    else changes.push({ atS, alerts: changed });
  }
  return { changes, repetitions, repeatsResolved };
}

function split(text: string): [state: string, alert: string] {
  const at = text.indexOf(" ");
  return [text.slice(0, at), text.slice(at + 1)];
}

/** Such as `9 s: 2 firing; 38 s: 1 firing, 1 resolved`. */
function describe(messages: readonly ReceivedMessage[]): string {
  const texts = messages.map(({ atS, alerts }) => {
    const counts = Map.groupBy(alerts, (text) => split(text)[0]);
    return `${Math.round(atS)} s: ${[...counts].map(([state, found]) => `${found.length} ${state}`).join(", ")}`;
  });
  return texts.join("; ") || "nothing";
}
