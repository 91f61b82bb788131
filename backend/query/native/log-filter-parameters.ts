// Parses the parameters of a query string that filter log records, for all log routes. Invariant: an unknown parameter is rejected by
// name, because ignoring a filter would return everything.
import { ApiError } from "../../errors.ts";
import { MAX_PATTERN_CHARACTERS, MAX_PATTERN_STEPS } from "../../storage/storage-limits.ts";
import { MAX_SEARCH_WORDS } from "../query-limits.ts";
import { readPrefixed } from "../page-route.ts";
import type { RecordFilter } from "../../storage/logs/filter.ts";
import { wordsOf } from "../../storage/logs/words.ts";
import { patternsOfLogQuery, withLogQuery } from "./log-query/conditions.ts";
import { MAX_QUERY_CHARACTERS } from "./log-query/parse.ts";
import { checkPatterns, MATCHED_BYTES } from "../../storage/logs/pattern.ts";

type Repeatable = string | string[];

export interface FilterParameters {
  query?: string;
  source?: string;
  level?: string;
  words?: Repeatable;
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

export const REPEATABLE = { anyOf: [{ type: "string" }, { type: "array", items: { type: "string" } }] };

const FILTER_PARAMETERS = {
  query: {
    type: "string",
    maxLength: MAX_QUERY_CHARACTERS,
    description:
      "the query language of docs/log-query.md: words, field:value, field>number, wildcards, AND, OR, NOT and groups, for example " +
      'level:error,warn AND (timeout OR "connection reset") AND NOT source:probe*; or LogQL, for example {service_name="checkout"} |= "timeout" ' +
      "(in rules, only the former). Records must match all other parameters too",
  },
  source: { type: "string", description: "service.name of the sender" },
  level: { type: "string", description: "such as info or error, upper or lower case" },
  words: {
    ...REPEATABLE,
    description:
      `whole words of the message; the case of ASCII letters is ignored; repeatable: the message must contain all, at most ${MAX_SEARCH_WORDS}. ` +
      "Words are separated by ASCII characters that are neither letters nor digits. Faster than q, because words have an index",
  },
  q: { ...REPEATABLE, description: "substring of the message, case is ignored; repeatable: the message must contain all" },
  not_q: { ...REPEATABLE, description: "like q; repeatable: the message must contain none" },
  regex: {
    ...REPEATABLE,
    description:
      `RE2 regular expression that matches part of the first ${MATCHED_BYTES / 1024} KiB of the message; (?i) ignores case; repeatable: all ` +
      `must match. All together have at most ${MAX_PATTERN_CHARACTERS} characters and ${MAX_PATTERN_STEPS} parts that match several characters ` +
      "or are repeated; each repetition counts",
  },
  not_regex: { ...REPEATABLE, description: "like regex; repeatable: none may match" },
  host_id: { type: "string", description: "the cluster, host or key" },
  node: { type: "string", description: "its name" },
  trace_id: { type: "string", pattern: "^[0-9a-fA-F]{32}$", description: "32 hex digits, in upper or lower case" },
};

/** The schema of a query string with these filters and `others`. */
export function filterSchema(others: Record<string, object>) {
  return {
    type: "object",
    properties: { ...FILTER_PARAMETERS, ...others },
    // Other names are rejected by name.
    patternProperties: { "^(not_)?label\\.": REPEATABLE },
  };
}

export const FILTER_SCHEMA = {
  type: "object",
  properties: FILTER_PARAMETERS,
  patternProperties: { "^(not_)?label\\..": REPEATABLE },
  additionalProperties: false,
};

/** Builds the filter from parameters that match the schema. Throws ApiError invalid_parameter that names the parameter. */
export function filterOf(parameters: FilterParameters): RecordFilter {
  const { source, level, host_id: hostId, node, trace_id: traceId } = parameters;
  const [q, notQ, regex, notRegex] = [parameters.q, parameters.not_q, parameters.regex, parameters.not_regex].map(all);
  const words = all(parameters.words);
  checkWords(words ?? []);
  checkPatterns({ regex: regex ?? [], not_regex: notRegex ?? [], query: patternsOfLogQuery(parameters.query) });
  const [labels, notLabels] = [readPrefixed(parameters, "label."), readPrefixed(parameters, "not_label.")];
  const filter = { source, level, words, q, notQ, regex, notRegex, hostId, node, traceId: traceId?.toLowerCase(), labels, notLabels };
  return withLogQuery(filter, parameters.query);
}

function checkWords(texts: readonly string[]): void {
  if (texts.flatMap(wordsOf).length > MAX_SEARCH_WORDS) throw new ApiError("invalid_parameter", `words: at most ${MAX_SEARCH_WORDS} words`);
  const empty = texts.find((text) => text !== "" && wordsOf(text).length === 0);
  if (empty !== undefined) throw new ApiError("invalid_parameter", "words: a letter or a digit is needed; q finds other characters");
}

function all(values: Repeatable | undefined): string[] | undefined {
  return values === undefined ? undefined : [values].flat();
}
