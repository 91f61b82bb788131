// Reads changes from the spans of two ranges: services and operations that moved, versions that are new, and the attributes that
// failed, slow or additional spans have in common. Invariant: attributes are compared for at most MAX_EXPLAINED services.
import type { QueryOptions } from "../../admission/query-queue.ts";
import type { OperationPoints } from "../../storage/traces/operation-points.ts";
import { type MinuteRange, minutesOf } from "../../storage/traces/red.ts";
import type { SpanStore } from "../../storage/traces/span-store.ts";
import type { StatisticsFilter } from "../../storage/traces/span-statistics.ts";
import type { VersionCount } from "../../storage/traces/version-counts.ts";
import { MAX_CHANGES, MAX_VERSION_SPANS } from "../query-limits.ts";
import {
  type Change,
  type Comparison,
  evidenceOf,
  figure,
  linkTo,
  nanosecondRange,
  nanosecondRanges,
  nanoseconds,
  NothingBefore,
  POINTS,
  type Span,
  wholeOf,
} from "./change.ts";
import { type Call, findRedChanges } from "./red-changes.ts";
import { compareProportions, sum } from "./statistics.ts";

const MAX_EXPLAINED = 3;
const MAX_ATTRIBUTES = 3;
/** An attribute's value is over-represented if its share is this much larger, and the value is in this many spans. */
const MIN_SHARE_DIFFERENCE = 0.3;
const MIN_SPANS = 10;
/** Attributes that repeat the question, or identify single requests. */
const TRIVIAL =
  /^(?:service|operation|kind|status|attribute\.(?:error.*|exception\..*|.*status_code|otel\.status.*|.*\.id|url\..*|http\.url))$/;
/** Attributes whose values name a place or a tenant, not a request. */
const IDENTIFYING = /^attribute\.(?:tenant|customer|org|account|region|availability_zone|host|k8s|cloud|deployment|container)[._]/;

interface Difference {
  readonly name: string;
  readonly value: string;
  readonly compared: number;
  readonly compared_share: number;
  readonly others: number;
  readonly others_share: number;
  readonly difference: number;
}

/** Throws NothingBefore, and ApiError as ClickHouse.read does. */
export async function findTraceChanges(
  spans: Omit<SpanStore, "insert">,
  orgId: string,
  comparison: Comparison,
  options: QueryOptions,
): Promise<Change[]> {
  const ranges = [minutesIn(comparison.before), minutesIn(comparison.now)];
  const question = { kinds: ["entry", "client"] as const, ranges, points: POINTS };
  const [entry = [], client = []] = await spans.operationPoints(orgId, question, options);
  if (entry.length === 0) return [];
  if (!entry.some(({ points }) => points.some(([point]) => point < POINTS))) throw new NothingBefore();
  const edges = JSON.parse((await spans.graph("listEdges", orgId, minutesIn(wholeOf(comparison)), options)).toString("utf8")) as Call[];
  const red = await findRedChanges({ entry, client }, edges, comparison);
  const versions = await findVersions(spans, orgId, { comparison, entry }, options);
  const explained = red
    .filter(({ severity }) => severity === "problem")
    .toSorted((a, b) => b.score - a.score)
    .slice(0, MAX_EXPLAINED);
  const attributes: Change[] = [];
  for (const change of explained) attributes.push(...(await findAttributes(spans, orgId, { change, comparison }, options)));
  return [...red, ...versions, ...attributes];
}

function minutesIn(range: Span): MinuteRange {
  const { start, end } = nanosecondRange(range);
  return minutesOf(start, end);
}

async function findVersions(
  spans: Pick<SpanStore, "versionCounts">,
  orgId: string,
  { comparison, entry }: { comparison: Comparison; entry: readonly OperationPoints[] },
  options: QueryOptions,
): Promise<Change[]> {
  const calls = sum(entry.flatMap(({ points }) => points.map(([, n]) => n)));
  const filter = { ...nanosecondRanges(comparison), oneOf: Math.ceil(calls / MAX_VERSION_SPANS) };
  const counts = JSON.parse((await spans.versionCounts(orgId, filter, options)).toString("utf8")) as VersionCount[];
  const known = new Set(counts.filter(({ before }) => before > 0).map(({ service, attribute }) => `${attribute} ${service}`));
  return counts
    .filter(({ service, attribute, before, now }) => before === 0 && now > 0 && known.has(`${attribute} ${service}`))
    .slice(0, MAX_CHANGES)
    .map(({ service, attribute, version, now, first_ms: firstMs }) => ({
      kind: "version" as const,
      severity: "notice" as const,
      score: 40,
      subject: `${service} ${version}`,
      title: `${service} has a new version: ${attribute} ${version}`,
      service,
      before: 0,
      now,
      unit: "spans",
      since_ms: firstMs,
      evidence: evidenceOf("/query/traces/search", comparison.now, { service, where: `${attribute}=${version}` }),
      link: linkTo("traces", { service, attributes: `${attribute}=${JSON.stringify(version)}` }, comparison.now),
    }));
}

async function findAttributes(
  spans: Pick<SpanStore, "statistics">,
  orgId: string,
  { change, comparison }: { change: Change; comparison: Comparison },
  options: QueryOptions,
): Promise<Change[]> {
  const { service = "", operation, kind, before = 0 } = change;
  const isRate = kind === "rate";
  const compared: StatisticsFilter["compared"] =
    kind === "errors" ? "errors" : isRate ? { sinceNs: nanoseconds(comparison.now.startMs) } : { minNs: BigInt(Math.ceil(before * 1e6)) };
  // All of the range, because the last quarter alone can have too few failed spans for a test.
  const range = isRate ? wholeOf(comparison) : comparison.now;
  const filter: StatisticsFilter = {
    span: { service, attributes: [] },
    range: nanosecondRange(range),
    points: 1,
    compared,
  };
  const differences = JSON.parse((await spans.statistics("spanDifferences", orgId, filter, options)).toString("utf8")) as Difference[];
  const words = { errors: "failed", latency: "slow", rate: "additional" }[kind as "errors" | "latency" | "rate"];
  return differences
    .filter((each) => isOverRepresented(each))
    .slice(0, MAX_ATTRIBUTES)
    .map(({ name, value, compared_share: share, others_share: otherShare, difference }) => ({
      kind: "attribute" as const,
      severity: "problem" as const,
      score: change.score + (difference > 0.6 ? 3 : -2),
      subject: `${service}: ${name.replace("attribute.", "")}=${value}`,
      title: `${figure(share * 100)} % of the ${words} spans of ${service} have ${name.replace("attribute.", "")}=${value}; of the others ${figure(otherShare * 100)} %`,
      service,
      before: otherShare,
      now: share,
      unit: "share of spans",
      since_ms: change.since_ms,
      // Additional spans are compared with earlier ones, for which there is no route: facets count the value in one range.
      evidence: evidenceOf(isRate ? "/query/traces/facets" : "/query/traces/differences", range, {
        service,
        ...(kind === "latency" && { slower_than_ms: String(Math.ceil(before)) }),
      }),
      link: linkTo(
        "traces",
        {
          service,
          operation,
          attributes: `${JSON.stringify(name.replace("attribute.", ""))}=${JSON.stringify(value)}`,
          error: kind === "errors" ? "true" : undefined,
        },
        range,
      ),
    }));
}

/** The same test and minimum counts as for errors, and a difference that an operator would see. */
function isOverRepresented({ name, compared, compared_share: share, others, others_share: otherShare, difference }: Difference): boolean {
  if (TRIVIAL.test(name) && !IDENTIFYING.test(name)) return false;
  if (difference < MIN_SHARE_DIFFERENCE || compared < MIN_SPANS) return false;
  const trials = { compared: compared / share, others: otherShare === 0 ? MIN_SPANS : others / otherShare };
  return compareProportions({ hits: others, trials: trials.others }, { hits: compared, trials: trials.compared }) < 1e-6;
}
