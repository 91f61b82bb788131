// Prints the result of a run as a table.
import { ATTACKS } from "./attack-table.ts";
import type { Fared } from "./good-tenant.ts";
import type { RunResult } from "./run-attacks.ts";

const SENDS = ["send metrics", "send logs", "send traces"];
const LOGQL = "query LogQL";
const QUERIES = ["query logs", LOGQL, "query traces", "query metrics", "rule status"];

/** Everything of one run. */
export function shownRun(result: RunResult): string {
  const rows = Object.entries(result.fared).map(([name, one]) => [name, one.sent, one.p50Ms, one.p99Ms, one.maxMs, errorsOf([one])]);
  const { pod, evaluations } = result;
  const names = Object.entries(pod.peakResidentMiB).map(([name, mib]) => `${name} ${mib}`);
  return [
    table(["the good tenant", "sent", "p50 ms", "p99 ms", "max ms", "not answered with success"], rows),
    `rules: ${evaluations.came} evaluations of ${evaluations.rules} rules, ${evaluations.missed} missed, longest gap ${evaluations.longestGapMs} ms; ${result.failedEvaluations} answers reported a failed one`,
    `memory: peak ${pod.peakAnonymousMiB} MiB without page cache (resident: ${names.join(", ")})${result.unlimited === undefined ? "" : `; NO LIMIT: ${result.unlimited}`}`,
    `ends: ${pod.ends.length} (${pod.ends.join(", ")}), ${pod.oomKills} processes killed for memory, ${pod.livenessKills} by liveness, ${pod.engineRestarts} starts of engines; away ${(pod.awayMs / 1000).toFixed(0)} s`,
    `probes failed: readiness ${pod.readinessFailures} of ${pod.readinessProbes}, liveness ${pod.livenessFailures} of ${pod.livenessProbes}`,
    table(
      ["attack", "group", "answers"],
      Object.entries(result.answers).map(([name, answers]) => [name, ATTACKS[name]?.group ?? "", tallyOf(Object.entries(answers))]),
    ),
  ].join("\n\n");
}

/** One line for each of several runs. */
export function shownRuns(results: readonly RunResult[]): string {
  const header = [
    "attacks",
    "/healthz p99 / max ms",
    "sends p99 / max ms",
    "errors",
    "queries p99 / max ms",
    "errors",
    "login, rule max ms",
    "errors",
  ];
  const rows = results.map((result) => {
    const { pod, evaluations } = result;
    const of = (names: readonly string[]) => names.flatMap((name) => result.fared[name] ?? []);
    const times = (all: readonly Fared[]): string => `${most(all, "p99Ms")} / ${most(all, "maxMs")}`;
    const [sends, queries, rest] = [of(SENDS), of(QUERIES), of(["log in", "create a rule"])];
    return [
      result.attacks.length === 0 ? "none" : result.attacks.length > 3 ? `${result.attacks.length} together` : result.attacks.join(", "),
      times(of(["liveness probe"])),
      times(sends),
      errorsOf(sends),
      times(queries),
      errorsOf(queries),
      rest.map(({ maxMs }) => maxMs).join(", "),
      errorsOf(rest),
      `${evaluations.missed} of ${evaluations.came + evaluations.missed}, ${(evaluations.longestGapMs / 1000).toFixed(0)} s`,
      pod.peakAnonymousMiB,
      `${pod.ends.length}${pod.livenessKills > 0 ? ` (${pod.livenessKills} by liveness)` : ""}, ${(pod.awayMs / 1000).toFixed(0)} s away`,
      `${pod.readinessFailures} of ${pod.readinessProbes}`,
      result.attacks.length > 3 ? "" : result.attacks.map((name) => tallyOf(Object.entries(result.answers[name] ?? {}))).join("; "),
    ];
  });
  return table([...header, "evaluations missed, longest gap", "peak MiB", "ends", "not ready", "the attack was answered"], rows);
}

/** How the other tenant fares without attacks (the first run) and during them: the slowest kind of each. */
export function comparedRuns(results: readonly (readonly [what: string, result: RunResult])[]): string {
  const header = ["during", "/healthz", "queries", "LogQL", "ingest", "errors", "rules evaluated late", "peak MiB", "above rest"];
  const rest = results[0]?.[1].pod.peakAnonymousMiB ?? 0;
  const rows = results.map(([what, { fared, evaluations, pod }]) => {
    const times = (names: readonly string[]): string => {
      const all = names.flatMap((name) => fared[name] ?? []);
      return `${most(all, "p50Ms")} / ${most(all, "p99Ms")} / ${most(all, "maxMs")}`;
    };
    const kills = pod.livenessKills + pod.oomKills + pod.engineRestarts + pod.ends.length;
    return [
      what,
      times(["liveness probe"]),
      times(QUERIES.filter((name) => name !== LOGQL)),
      times([LOGQL]),
      times(SENDS),
      `${errorsOf(Object.values(fared))}${kills > 0 ? `; ${kills} processes ended` : ""}`,
      `${evaluations.missed} of ${evaluations.came + evaluations.missed}`,
      pod.peakAnonymousMiB,
      pod.peakAnonymousMiB - rest,
    ];
  });
  return table(header, rows);
}

function most(all: readonly Fared[], field: "p50Ms" | "p99Ms" | "maxMs"): number {
  return Math.max(0, ...all.map((one) => one[field]).filter(Number.isFinite));
}

function errorsOf(all: readonly Fared[]): string {
  const sums = new Map<string, number>();
  for (const { errors } of all) for (const [answer, times] of Object.entries(errors)) sums.set(answer, (sums.get(answer) ?? 0) + times);
  return tallyOf([...sums]) || "none";
}

function tallyOf(answers: readonly (readonly [string, number])[]): string {
  return answers.map(([answer, times]) => `${times} × ${answer}`).join(", ");
}

/** In Markdown. */
function table(header: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]): string => `| ${cells.join(" | ")} |`;
  return [line(header), line(header.map(() => "---")), ...rows.map(line)].join("\n");
}
