// Redaction and sampling of pods' logs by annotations of pods and namespaces, which the agent validates and puts on the pods that it relays
// (agent/policies). Invariants: each record is edited by what its own pod says, with no change of the configuration; redaction comes before
// the disk queue. The collector compiles the expression of a pod for each of its lines, so only lines of such pods pay for it.
import type { Component } from "./fragment.ts";
import { OPT_OUT_ANNOTATION } from "./kubernetes-attributes.ts";
import { MAX_REDACTED_LINE_BYTES } from "../../../limits.ts";

/** Annotations that pods and namespaces have. */
export const POD_POLICY_ANNOTATIONS = [
  OPT_OUT_ANNOTATION,
  "atherops.io/logs-redact",
  "atherops.io/logs-sample-percent",
  "atherops.io/logs-bytes-per-second",
] as const;

/** On relayed pods only; kept of no pod of the API server. */
export const REDACT_ANNOTATION = "effective.atherops.io/redact";
export const SAMPLE_ANNOTATION = "effective.atherops.io/sample-below";

const REDACT = 'resource.attributes["atherops.redact"]';
const SAMPLE = 'resource.attributes["atherops.sample"]';

/** For the processor that adds attributes of pods to lines of files. */
export const POLICY_ATTRIBUTES = [
  { tag_name: "atherops.redact", key: REDACT_ANNOTATION, from: "pod" },
  { tag_name: "atherops.sample", key: SAMPLE_ANNOTATION, from: "pod" },
];

/** The same line gets the same number, also when it is read again. */
const NUMBER = 'Substring(SHA1(Concat([log.attributes["log.file.path"], log.attributes["log.file.record_offset"]], ":")), 0, 4)';

/** Records that are not in the sample. */
export const NOT_IN_SAMPLE = `${SAMPLE} != nil and ${NUMBER} >= ${SAMPLE}`;

export const POLICIES_ID = "transform/policies";
export const POLICIES: Component = {
  error_mode: "ignore",
  log_statements: [
    {
      context: "log",
      conditions: [`${REDACT} != nil and IsString(log.body)`],
      statements: [
        `set(log.body, Substring(log.body, 0, ${MAX_REDACTED_LINE_BYTES})) where Len(log.body) > ${MAX_REDACTED_LINE_BYTES}`,
        // The backend would refuse a batch with a part of a character, which is matched as U+FFFD.
        `${String.raw`replace_pattern(log.body, "\\x{FFFD}{1,3}$", "")`} where Len(log.body) == ${MAX_REDACTED_LINE_BYTES}`,
        `replace_pattern(log.body, ${REDACT}, "****")`,
      ],
    },
    {
      context: "resource",
      statements: [`delete_key(resource.attributes, "atherops.redact")`, `delete_key(resource.attributes, "atherops.sample")`],
    },
  ],
};
