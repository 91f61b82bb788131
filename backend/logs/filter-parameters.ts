// The parameters of a query string that say which log records are meant, for all routes of logs. Invariant: what is not understood is
// refused by name, because a filter that is left out would answer everything.
import type { FastifyRequest } from "fastify";
import { readPrefixed, refuseUnknown } from "../query/page-route.ts";
import type { RecordFilter } from "./filter.ts";
import { checkPatterns, MATCHED_BYTES, MOST_CHARACTERS, MOST_STEPS } from "./pattern.ts";

type Repeatable = string | string[];

export interface FilterParameters {
  source?: string;
  level?: string;
  q?: Repeatable;
  not_q?: Repeatable;
  regex?: Repeatable;
  not_regex?: Repeatable;
  host_id?: string;
  node?: string;
  trace_id?: string;
  [label: `label.${string}`]: Repeatable;
  [notLabel: `not_label.${string}`]: Repeatable;
}

const REPEATABLE = { anyOf: [{ type: "string" }, { type: "array", items: { type: "string" } }] };

const FILTER_PARAMETERS = {
  source: { type: "string", description: "service.name of the sender" },
  level: { type: "string", description: "such as info or error, any case" },
  q: { ...REPEATABLE, description: "substring of the message, any case; repeatable: all must be there" },
  not_q: { ...REPEATABLE, description: "as q; repeatable: none may be there" },
  regex: {
    ...REPEATABLE,
    description:
      `regular expression of RE2 that is found in the first ${MATCHED_BYTES / 1024} KiB of the message, (?i) for any case; repeatable: ` +
      `all must be found. All together have ${MOST_CHARACTERS} characters at most, and ${MOST_STEPS} parts that stand for several ` +
      "characters or are repeated, as often as they are repeated",
  },
  not_regex: { ...REPEATABLE, description: "as regex; repeatable: none may be found" },
  host_id: { type: "string", description: "the cluster, host or key" },
  node: { type: "string", description: "its name" },
  trace_id: { type: "string", pattern: "^[0-9a-fA-F]{32}$", description: "32 hex digits of any case" },
};

/** The schema of a query string with these filters and `others`. */
export function filterSchema(others: Record<string, object>) {
  return {
    type: "object",
    properties: { ...FILTER_PARAMETERS, ...others },
    // Others are refused by name.
    patternProperties: { "^(not_)?label\\.": REPEATABLE },
  };
}

/** The schema of an object that has these filters and nothing else. */
export const FILTER_SCHEMA = {
  type: "object",
  properties: FILTER_PARAMETERS,
  patternProperties: { "^(not_)?label\\..": REPEATABLE },
  additionalProperties: false,
};

/** Throws ApiError invalid_parameter naming the parameter. `schema`: that of the route. */
export function readFilter(request: FastifyRequest, schema: ReturnType<typeof filterSchema>): RecordFilter {
  refuseUnknown(request, schema.properties, ["label.", "not_label."]);
  return filterOf(request.query as FilterParameters);
}

/** Of parameters that fit the schema. Throws ApiError invalid_parameter naming the parameter. */
export function filterOf(parameters: FilterParameters): RecordFilter {
  const { source, level, host_id: hostId, node, trace_id: traceId } = parameters;
  const [q, notQ, regex, notRegex] = [parameters.q, parameters.not_q, parameters.regex, parameters.not_regex].map(all);
  checkPatterns({ regex: regex ?? [], not_regex: notRegex ?? [] });
  const [labels, notLabels] = [readPrefixed(parameters, "label."), readPrefixed(parameters, "not_label.")];
  return { source, level, q, notQ, regex, notRegex, hostId, node, traceId: traceId?.toLowerCase(), labels, notLabels };
}

function all(values: Repeatable | undefined): string[] | undefined {
  return values === undefined ? undefined : [values].flat();
}
