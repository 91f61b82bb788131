// Logs of the node's pods, as the container runtime writes them under /var/log/pods. The agent's own pod is left out, else each line
// it logs about logs would become another. Invariant: no file is read before it is known which pods keep their logs to themselves.
import type { Fragment } from "./fragment.ts";
import { CONTAINER_FORMAT } from "./container-format.ts";
import { reading } from "./files.ts";
import { logFields } from "./log-fields.ts";
import {
  attributesOfFiles,
  DEPLOYMENT_NAMES,
  DEPLOYMENT_NAMES_ID,
  type KubernetesInput,
  OPT_OUT_ATTRIBUTE,
} from "./kubernetes-attributes.ts";

export interface PodLogsInput {
  readonly kubernetes: KubernetesInput;
  readonly ownPodUid: string;
  readonly excludeNamespaces: readonly string[];
  readonly maxAgeMs: number;
  readonly multilineStart?: string | undefined;
  /** Level, time and trace are taken out of what lines say. */
  readonly readsFields: boolean;
}

export const PODS_RECEIVER = "file_log/pods";

const ROOT = "/var/log/pods";
const POLL_INTERVAL_MS = 200;

export function podLogs(input: PodLogsInput): Fragment {
  return {
    receivers: {
      [PODS_RECEIVER]: {
        // The kubelet renames 0.log to 0.log.<date>-<time> and compresses it only at the rotation after.
        include: [`${ROOT}/*/*/*.log`, `${ROOT}/*/*/*.log.2???????-??????`],
        exclude: [`${ROOT}/*_${input.ownPodUid}/*/*`, ...input.excludeNamespaces.map((name) => `${ROOT}/${name}_*/*/*`)],
        ...reading(input.maxAgeMs, POLL_INTERVAL_MS),
        include_file_name: false,
        include_file_path: true,
        // As they are; container-format.ts makes characters of them.
        encoding: "utf8-raw",
        // In a line that goes on in the next one they are in its middle.
        preserve_trailing_whitespaces: true,
        operators: [...CONTAINER_FORMAT, ...multiline(input.multilineStart), ...(input.readsFields ? FIELDS : []), SOURCE],
      },
    },
    processors: {
      "k8s_attributes/files": attributesOfFiles(input.kubernetes),
      [DEPLOYMENT_NAMES_ID]: DEPLOYMENT_NAMES,
      "filter/opted-out": {
        error_mode: "ignore",
        logs: { log_record: [`resource.attributes["${OPT_OUT_ATTRIBUTE}"] == "false"`] },
      },
    },
    pipelines: [
      {
        id: "logs/pods",
        receivers: [PODS_RECEIVER],
        processors: ["k8s_attributes/files", "filter/opted-out", DEPLOYMENT_NAMES_ID],
        waits: true,
      },
    ],
  };
}

/** A line that is a day late was written about another day. */
const FIELDS = logFields({ hasRuntimeTime: true, maxAgeMs: 86_400_000 });

/** Until something better names it, a log's source is its container. */
const SOURCE = {
  type: "copy",
  from: 'resource["k8s.container.name"]',
  to: 'resource["service.name"]',
  if: 'resource["k8s.container.name"] != nil',
};

/**
 * The record that is being put together is in memory only: a collector that is killed within these two seconds loses it. What no first line
 * came before is a record of its own, so that pods of another kind keep their lines.
 */
function multiline(start: string | undefined): object[] {
  if (start === undefined) return [];
  return [
    {
      type: "recombine",
      combine_field: "body",
      is_first_entry: `body matches ${JSON.stringify(start)}`,
      source_identifier: 'attributes["log.file.path"]',
      max_unmatched_batch_size: 1,
      force_flush_period: "2s",
      max_log_size: "1MiB",
    },
  ];
}
