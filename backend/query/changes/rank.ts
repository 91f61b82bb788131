// Orders changes so that likely causes come first: a deployment or a change of configuration rises if something became worse after it, and
// each service and object appears with its most important change before it appears again.
import type { Change } from "./change.ts";

/** How much a possible cause rises if a problem began after it. */
const CAUSE = 45;
const CAUSE_ELSEWHERE = 20;
/** A problem is noticed up to this long before the first span of its cause, because windows are a quarter of the range. */
const TOLERANCE_SHARE = 0.25;
/** How much a second change of the same object falls. */
const REPEATED = 12;

const SYMPTOMS = new Set(["errors", "latency", "rate", "logs", "cluster", "resource", "agent"]);
const CAUSES = new Set(["version", "audit"]);

/** The best `limit` changes. `rangeMs`: the length of the range. */
export function rankChanges(changes: readonly Change[], rangeMs: number, limit: number): Change[] {
  const symptoms = changes.filter(({ kind, severity }) => severity === "problem" && SYMPTOMS.has(kind));
  const scored = changes.map((change) => ({ ...change, score: change.score + causeOf(change, symptoms, rangeMs) }));
  const seen = new Map<string, number>();
  const ordered = scored.toSorted(byScore).map((change) => {
    // A cause does not hide the problem that it explains.
    const key = `${change.service ?? change.subject} ${change.kind === "logs" ? "logs" : change.severity}`;
    const times = seen.get(key) ?? 0;
    seen.set(key, times + 1);
    return { ...change, score: Math.max(0, Math.min(100, change.score - Math.min(2, times) * REPEATED)) };
  });
  return ordered.toSorted(byScore).slice(0, limit);
}

function causeOf({ kind, service, since_ms: sinceMs, subject }: Change, symptoms: readonly Change[], rangeMs: number): number {
  if (!CAUSES.has(kind)) return 0;
  const after = symptoms.filter((symptom) => (symptom.since_ms ?? Number.POSITIVE_INFINITY) >= (sinceMs ?? 0) - TOLERANCE_SHARE * rangeMs);
  if (after.length === 0) return 0;
  const isSame = (symptom: Change) => [symptom.service, symptom.subject].some((name) => name && subject.includes(name));
  return service !== undefined && after.some((symptom) => symptom.service === service || isSame(symptom)) ? CAUSE : CAUSE_ELSEWHERE;
}

function byScore(a: Change, b: Change): number {
  return b.score - a.score || (a.title < b.title ? -1 : 1);
}
