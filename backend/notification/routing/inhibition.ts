// Inhibition as in Alertmanager: while an alert fires that matches the source of a rule, alerts that match its target are not sent, if the
// labels in `equal` have the same values; a missing label counts as empty. Invariant: an alert that matches both sides is not inhibited by
// another one that does, so that no alert inhibits itself.
import type { TimeSlices } from "../../admission/time-slices.ts";
import { compileMatchers, type Labels, type RouteMatcher, toMatcher } from "../model/matchers.ts";

export interface InhibitRule {
  readonly source_matchers: readonly RouteMatcher[];
  readonly target_matchers: readonly RouteMatcher[];
  readonly equal: readonly string[];
}

interface Source {
  readonly fingerprint: string;
  readonly labels: Labels;
}

/** Returns a function that finds an alert that inhibits an alert with these labels. `firing`: all firing alerts of the organisation. */
export async function createInhibitor(
  rules: readonly InhibitRule[],
  firing: readonly Source[],
  slices: TimeSlices,
): Promise<(labels: Labels) => string | undefined> {
  const compiled = await slices.map(rules, (rule) => ({
    rule,
    isSource: compileMatchers(rule.source_matchers.map(toMatcher)),
    isTarget: compileMatchers(rule.target_matchers.map(toMatcher)),
    /** Values of the labels in `equal` → the first source, and the first one that is no target. */
    sources: new Map<string, { readonly any: string; oneSided: string | undefined }>(),
  }));
  await slices.map(compiled.length === 0 ? [] : firing, ({ fingerprint, labels }) => {
    for (const { rule, isSource, isTarget, sources } of compiled) {
      if (!isSource(labels)) continue;
      const key = equalKey(rule, labels);
      const known = sources.get(key) ?? { any: fingerprint, oneSided: undefined };
      if (known.oneSided === undefined && !isTarget(labels)) known.oneSided = fingerprint;
      sources.set(key, known);
    }
  });
  return (labels) => {
    for (const { rule, isSource, isTarget, sources } of compiled) {
      const found = isTarget(labels) ? sources.get(equalKey(rule, labels)) : undefined;
      const inhibitedBy = found && (isSource(labels) ? found.oneSided : found.any);
      if (inhibitedBy !== undefined) return inhibitedBy;
    }
    return undefined;
  };
}

function equalKey({ equal }: InhibitRule, labels: Labels): string {
  return JSON.stringify(equal.map((name) => (Object.hasOwn(labels, name) ? labels[name] : "")));
}
