// Of a pod what the collector's configuration asks for, and nothing else: who it is, where it is, who owns it, which ports it declares.
// Invariants: no environment, argument or volume of a container is kept, for secrets stand there; of labels and annotations only those that
// are named; one pod takes a bounded room, whatever its author wrote into it.
import type { PodJson } from "../kubernetes/api.ts";
import { MAX_POD_CHARACTERS } from "./limits.ts";

export interface SlimOptions {
  /** Names. */
  readonly labels: readonly string[];
  readonly annotations: readonly string[];
}

const LONG_ANNOTATION = 1024;

/** As JSON of the API. */
export function slimPod(pod: PodJson, options: SlimOptions): string {
  const whole = slim(pod, options);
  const { annotations, ownerReferences, ...metadata } = whole.metadata;
  const { containers: _, initContainers: __, ...spec } = whole.spec;
  const short = picked(annotations, (_name, value) => String(value).length <= LONG_ANNOTATION);
  const less = { ...whole, metadata: { ...metadata, annotations: short }, spec };
  for (const shape of [whole, { ...less, metadata: { ...less.metadata, ownerReferences } }]) {
    const text = JSON.stringify(shape);
    if (text.length <= MAX_POD_CHARACTERS) return text;
  }
  return JSON.stringify(less);
}

function slim({ metadata, spec = {}, status = {} }: PodJson, { labels, annotations }: SlimOptions) {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      ...only(metadata, ["name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"]),
      labels: picked(metadata["labels"], (name) => labels.includes(name)),
      annotations: picked(metadata["annotations"], (name) => annotations.includes(name)),
      ownerReferences: each(metadata["ownerReferences"], ["apiVersion", "kind", "name", "uid", "controller"]),
    },
    spec: {
      ...only(spec, ["nodeName", "hostNetwork", "hostname"]),
      containers: containers(spec["containers"]),
      initContainers: containers(spec["initContainers"]),
    },
    status: {
      ...only(status, ["phase", "podIP", "podIPs", "hostIP", "startTime"]),
      conditions: each(status["conditions"], ["type", "status"]),
    },
  };
}

function containers(value: unknown): object[] | undefined {
  return list(value)?.map((container) => ({
    ...only(container, ["name"]),
    ports: each(container["ports"], ["name", "containerPort", "protocol"]),
  }));
}

type Fields = Readonly<Record<string, unknown>>;

function each(value: unknown, names: readonly string[]): object[] | undefined {
  return list(value)?.map((item) => only(item, names));
}

function list(value: unknown): readonly Fields[] | undefined {
  return Array.isArray(value) ? (value as Fields[]) : undefined;
}

function only(fields: Fields, names: readonly string[]): Fields {
  return Object.fromEntries(names.filter((name) => fields[name] !== undefined).map((name) => [name, fields[name]]));
}

/** Undefined where nothing is left, as the API leaves an empty map out. */
function picked(value: unknown, wanted: (name: string, value: unknown) => boolean): Fields | undefined {
  const left = Object.entries((value ?? {}) as Fields).filter((entry) => wanted(...entry));
  return left.length > 0 ? Object.fromEntries(left) : undefined;
}
