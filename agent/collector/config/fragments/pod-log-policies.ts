// Redacts and samples pods' logs according to annotations of pods and namespaces. The agent validates these and adds the effective ones to
// the pods that its relay, an API server for the collector, returns (agent/policies, agent/pods/relay.ts). Invariants: the policy of a
// record's own pod applies, and a changed policy needs no new configuration; redaction happens before the disk queue. The collector
// compiles a pod's expression for each line; lines of pods without a policy do not incur this cost.
import type { Component } from "./fragment.ts";
import { CRI_LINES } from "./file-lines.ts";
import { OPT_OUT_ANNOTATION } from "./kubernetes-attributes.ts";
import { MAX_REDACTED_LINE_BYTES } from "../../../agent-limits.ts";

/** Annotations that users set on pods and namespaces. */
export const POD_POLICY_ANNOTATIONS = [
  OPT_OUT_ANNOTATION,
  "atherops.io/logs-redact",
  "atherops.io/logs-sample-percent",
  "atherops.io/logs-bytes-per-second",
] as const;

/** Exists only on relayed pods; the relay removes it from what the API server returns. */
export const REDACT_ANNOTATION = "effective.atherops.io/redact";
export const SAMPLE_ANNOTATION = "effective.atherops.io/sample-below";

const REDACT = 'resource.attributes["atherops.redact"]';
const SAMPLE = 'resource.attributes["atherops.sample"]';

/** Extracted by the processor that adds pod attributes to log lines that were read from files. */
export const POLICY_ATTRIBUTES = [
  { tag_name: "atherops.redact", key: REDACT_ANNOTATION, from: "pod" },
  { tag_name: "atherops.sample", key: SAMPLE_ANNOTATION, from: "pod" },
];

/** The first four hexadecimal digits of a hash, which is the same each time the line is read. */
const HASH_PREFIX = 'Substring(SHA1(Concat([resource.attributes["log.file.path"], log.attributes["log.file.record_offset"]], ":")), 0, 4)';

/**
 * Matches records that are not in the sample. Compares hexadecimal strings of four digits, not numbers (`sampleThreshold` of policy-values.ts).
 */
export const NOT_IN_SAMPLE = `${SAMPLE} != nil and ${HASH_PREFIX} >= ${SAMPLE}`;

export const POLICIES_ID = "transform/policies";
/** Without the prefix of the container runtime, which stays as it is. */
const TEXT = 'log.cache["text"]';
const PREFIX = 'log.cache["prefix"]';
const DOCKER = 'log.cache["docker"]';
/** Other lines begin with what the program wrote. */
const HAS_PREFIX = `scope.name == "${CRI_LINES}"`;
const IS_PART = String.raw`IsMatch(log.body, "^\\S+ (stdout|stderr) P ") and ` + HAS_PREFIX;
export const POLICIES: Component = {
  error_mode: "silent",
  log_statements: [
    {
      context: "log",
      conditions: [`${REDACT} != nil and IsString(log.body)`],
      statements: [
        // Docker's format is escaped, so it becomes the other one.
        String.raw`set(${DOCKER}, ParseJSON(log.body)) where HasPrefix(log.body, "{\"log\":") and ` + HAS_PREFIX,
        `set(log.body, Concat([${DOCKER}["time"], " ", ${DOCKER}["stream"], " F ", ${DOCKER}["log"]], "")) where ${DOCKER} != nil`,
        String.raw`replace_pattern(log.body, "\n$", "")` + ` where ${DOCKER} != nil`,
        // What is redacted may be in two parts of a long line. The text of a part contains no newline.
        `set(log.cache["parts"], true) where ${IS_PART}`,
        String.raw`replace_pattern(log.body, "^(\\S+ \\S+) P ((?s:.*))\n\\S+ \\S+ F ?", "$1 F $2")` + ` where log.cache["parts"] == true`,
        String.raw`replace_pattern(log.body, "\n\\S+ \\S+ P ?", "")` + ` where log.cache["parts"] == true`,
        `set(${PREFIX}, "")`,
        String.raw`set(${PREFIX}, ExtractPatterns(log.body, "^(?P<prefix>\\S+ (?:stdout|stderr) \\S+ ?)")["prefix"]) where ` + HAS_PREFIX,
        `set(${TEXT}, Substring(log.body, Len(${PREFIX}), Len(log.body) - Len(${PREFIX}))) where Len(log.body) > Len(${PREFIX})`,
        `set(${TEXT}, Substring(${TEXT}, 0, ${MAX_REDACTED_LINE_BYTES})) where Len(${TEXT}) > ${MAX_REDACTED_LINE_BYTES}`,
        // The expression sees an incomplete character at the end as U+FFFD; the backend would refuse a batch with a partial character.
        `${String.raw`replace_pattern(${TEXT}, "\\x{FFFD}{1,3}$", "")`} where Len(${TEXT}) == ${MAX_REDACTED_LINE_BYTES}`,
        `replace_pattern(${TEXT}, ${REDACT}, "****")`,
        `set(log.body, Concat([${PREFIX}, ${TEXT}], "")) where ${TEXT} != nil`,
      ],
    },
    {
      context: "resource",
      statements: [`delete_key(resource.attributes, "atherops.redact")`, `delete_key(resource.attributes, "atherops.sample")`],
    },
  ],
};
