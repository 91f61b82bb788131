// Renders the configuration as YAML, merged with the operator's own file. Invariants: our own values are literal (the collector would
// expand `$`); the merged result sends telemetry only through our exporters, unless the operator allowed others.
import { parseDocument, stringify } from "yaml";
import { EXPANDED, EXPORTERS, QUEUE_SIZE, type CollectorConfig } from "./collector-config.ts";

/** The operator's configuration cannot be used; the message says why and what to do. */
export class CollectorConfigError extends Error {
  override readonly name = "CollectorConfigError";
}

type Tree = { [key: string]: unknown };

const KINDS = ["receivers", "processors", "exporters", "extensions", "connectors"];

export interface Overlay {
  /** Contents of COLLECTOR_CONFIG_FILE. */
  readonly text: string;
  readonly allowOtherExporters: boolean;
}

/** `without`: our receivers that do not run for now, also if pipelines of the overlay use them. Throws CollectorConfigError. */
export function renderCollectorConfig(config: CollectorConfig, overlay?: Overlay, without: readonly string[] = []): string {
  const ours = escaped(config) as Tree;
  const theirs = parseOverlay(overlay?.text ?? "");
  refuseOldNames(theirs);
  if (without.length > 0) theirs["receivers"] = { ...tree(theirs["receivers"]), ...Object.fromEntries(without.map((id) => [id, null])) };
  const merged = merge(ours, theirs, []) as Tree;
  removeNulled(merged, ours, theirs);
  if (overlay?.allowOtherExporters === false) refuseOtherExporters(merged, ours);
  return yamlOf(merged);
}

const YAML_OPTIONS = { lineWidth: 0, aliasDuplicateObjects: false } as const;
let last = { json: "", yaml: "" };

/**
 * The agent checks for changes every ten seconds. Rendering the same YAML again costs some milliseconds; comparing JSON costs almost
 * nothing.
 */
function yamlOf(value: Tree): string {
  const json = JSON.stringify(value, keepNonFinite);
  if (json !== last.json) last = { json, yaml: stringify(value, YAML_OPTIONS) };
  return last.yaml;
}

/** JSON cannot represent NaN and infinities. */
function keepNonFinite(_key: string, value: unknown): unknown {
  return typeof value === "number" && !Number.isFinite(value) ? `\0${value}` : value;
}

/** Whether an overlay changes one of these components other than by removing it. Throws CollectorConfigError. */
export function changesComponent(overlay: string, kind: string, ids: readonly string[]): boolean {
  const components = tree(parseOverlay(overlay)[kind]);
  return ids.some((id) => (components[id] ?? undefined) !== undefined);
}

function parseOverlay(text: string): Tree {
  const document = parseDocument(text);
  if (document.errors[0]) throw new CollectorConfigError(`COLLECTOR_CONFIG_FILE is not YAML: ${document.errors[0].message}`);
  const value: unknown = document.toJS();
  if (value !== null && !isTree(value)) throw new CollectorConfigError("COLLECTOR_CONFIG_FILE must be a map, such as {processors: {…}}");
  return value ?? {};
}

/** A component's former name would add a second component instead of changing ours. */
function refuseOldNames(theirs: Tree): void {
  if (!("k8sattributes" in tree(theirs["processors"]))) return;
  throw new CollectorConfigError(
    "COLLECTOR_CONFIG_FILE: processors.k8sattributes has two names by now: k8s_attributes (OTLP) and k8s_attributes/files (logs of pods)",
  );
}

/** Merges maps; appends to lists of pipelines and of service.extensions; any other value of the overlay replaces ours. */
function merge(ours: unknown, theirs: unknown, path: string[]): unknown {
  if (isTree(ours) && isTree(theirs)) {
    const keys = new Set([...Object.keys(ours), ...Object.keys(theirs)]);
    return Object.fromEntries([...keys].map((key) => [key, key in theirs ? merge(ours[key], theirs[key], [...path, key]) : ours[key]]));
  }
  if (Array.isArray(ours) && Array.isArray(theirs) && isListOfNames(path)) return [...new Set([...ours, ...theirs])];
  return theirs;
}

function isListOfNames(path: string[]): boolean {
  return path[0] === "service" && (path[1] === "pipelines" || path[1] === "extensions");
}

/** Removes components of ours that the overlay sets to null, also from pipelines; a pipeline without receivers is removed. */
function removeNulled(merged: Tree, ours: Tree, theirs: Tree): void {
  const pipelines = tree(tree(merged["service"])["pipelines"]);
  for (const kind of KINDS) {
    for (const [id, value] of Object.entries(tree(theirs[kind]))) {
      if (value !== null || !(id in tree(ours[kind]))) continue;
      delete tree(merged[kind])[id];
      for (const list of [...Object.values(pipelines).map((pipeline) => tree(pipeline)[kind]), tree(merged["service"])[kind]]) {
        if (Array.isArray(list) && list.includes(id)) list.splice(list.indexOf(id), 1);
      }
    }
  }
  for (const [id, pipeline] of Object.entries(pipelines)) {
    const { receivers } = tree(pipeline);
    if (pipeline === null || (Array.isArray(receivers) && receivers.length === 0)) delete pipelines[id];
  }
}

const HINT = "telemetry leaves the node through the signing proxy only; set ALLOW_OTHER_EXPORTERS=true if it shall also go elsewhere";

function refuseOtherExporters(merged: Tree, ours: Tree): void {
  for (const [id, value] of Object.entries(tree(merged["exporters"]))) {
    if (id.split("/")[0] === "debug") continue;
    if (!EXPORTERS.includes(id)) throw new CollectorConfigError(`COLLECTOR_CONFIG_FILE adds the exporter ${id}: ${HINT}`);
    const redirected = Object.keys(tree(value)).find(
      (key) => /endpoint$|^proxy_url$|^auth$|^headers$/.test(key) && tree(value)[key] !== tree(tree(ours["exporters"])[id])[key],
    );
    if (redirected !== undefined)
      throw new CollectorConfigError(`COLLECTOR_CONFIG_FILE changes ${redirected} of the exporter ${id}: ${HINT}`);
  }
  const telemetry = JSON.stringify(tree(merged["service"])["telemetry"] ?? {});
  if (telemetry.includes('"otlp') || /"output_paths":\[[^\]]*:\/\//.test(telemetry)) {
    throw new CollectorConfigError(`COLLECTOR_CONFIG_FILE makes service.telemetry send elsewhere: ${HINT}`);
  }
}

/** Doubles `$` in every string, except in our own variables, which the collector expands. */
function escaped(value: unknown): unknown {
  if (typeof value === "string") {
    // The value must contain nothing else: text in front of a variable would be expanded too, including file references.
    const isExpanded = QUEUE_SIZE.test(value) || EXPANDED.includes(value.replace(/^127\.0\.0\.1:/, ""));
    return isExpanded ? value : value.replaceAll("$", "$$$$");
  }
  if (Array.isArray(value)) return value.map((item) => escaped(item));
  if (isTree(value)) return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, escaped(item)]));
  return value;
}

function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function tree(value: unknown): Tree {
  return isTree(value) ? value : {};
}
