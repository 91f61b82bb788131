// Renders the collector's configuration as YAML, merged with the operator's COLLECTOR_CONFIG_FILE (the overlay). Invariants: our own values
// are literal, although the collector expands `$`, except for the references of `escapeDollars`; the merged configuration sends telemetry
// only through our exporters, unless ALLOW_OTHER_EXPORTERS is true.
import { parseDocument, stringify } from "yaml";
import { EXPANDED_REFERENCES, EXPORTERS, QUEUE_SIZE, type CollectorConfig } from "./collector-config.ts";

/** Thrown if the operator's configuration is invalid; the message contains the reason and what to do. */
export class CollectorConfigError extends Error {
  override readonly name = "CollectorConfigError";
}

type Tree = { [key: string]: unknown };

const FILE_RECEIVERS = ["file_log/pods", "file_log/files"];
const FILE_PIPELINES = ["logs/pods", "logs/files"];
const KINDS = ["receivers", "processors", "exporters", "extensions", "connectors"];

interface Overlay {
  /** Contents of COLLECTOR_CONFIG_FILE. */
  readonly text: string;
  readonly allowOtherExporters: boolean;
}

/** `omittedReceivers`: IDs of our receivers to omit for now, including from pipelines of the overlay. Throws CollectorConfigError. */
export function renderCollectorConfig(config: CollectorConfig, overlay?: Overlay, omittedReceivers: readonly string[] = []): string {
  const ours = escapeDollars(config) as Tree;
  const overlayTree = parseOverlay(overlay?.text ?? "");
  refuseOldNames(overlayTree);
  if (omittedReceivers.length > 0)
    overlayTree["receivers"] = { ...asTree(overlayTree["receivers"]), ...Object.fromEntries(omittedReceivers.map((id) => [id, null])) };
  const merged = merge(ours, overlayTree, []) as Tree;
  removeComponentsSetToNull(merged, ours, overlayTree);
  if (overlay?.allowOtherExporters === false) refuseOtherExporters(merged, ours);
  return toYaml(merged);
}

const YAML_OPTIONS = { lineWidth: 0, aliasDuplicateObjects: false } as const;
let last = { json: "", yaml: "" };

/**
 * Caches the last result, because the agent renders every ten seconds to detect changes: writing YAML takes several milliseconds, comparing
 * JSON almost none.
 */
function toYaml(value: Tree): string {
  const json = JSON.stringify(value, keepNonFinite);
  if (json !== last.json) last = { json, yaml: stringify(value, YAML_OPTIONS) };
  return last.yaml;
}

/** Encodes NaN and infinities, which JSON cannot represent. */
function keepNonFinite(_key: string, value: unknown): unknown {
  return typeof value === "number" && !Number.isFinite(value) ? `\0${value}` : value;
}

/** Returns whether an overlay changes one of these components without removing it. Throws CollectorConfigError. */
export function changesComponent(overlay: string, kind: string, ids: readonly string[]): boolean {
  const components = asTree(parseOverlay(overlay)[kind]);
  return ids.some((id) => (components[id] ?? undefined) !== undefined);
}

/** Processors of file pipelines whose conditions an operator may change. */
const LINE_PROCESSORS = ["filter/drop", "redaction", "transform/policies"] as const;

/** Returns whether an overlay may read or change lines of files: it changes their receivers or pipelines. Throws CollectorConfigError. */
export function changesFileLogs(overlay: string): boolean {
  const pipelines = asTree(asTree(parseOverlay(overlay)["service"])["pipelines"]);
  return (
    FILE_PIPELINES.some((id) => id in pipelines) ||
    // A pipeline of the operator's own may read the files, too.
    FILE_RECEIVERS.some((id) => JSON.stringify(pipelines).includes(JSON.stringify(id))) ||
    changesComponent(overlay, "receivers", FILE_RECEIVERS) ||
    changesComponent(overlay, "processors", LINE_PROCESSORS)
  );
}

/** Returns whether an overlay names the receivers or pipelines of files, so that the collector may read other files. */
export function namesFileReaders(overlay: string): boolean {
  const tree = parseOverlay(overlay);
  const [receivers, pipelines] = [asTree(tree["receivers"]), asTree(asTree(tree["service"])["pipelines"])];
  return FILE_RECEIVERS.some((id) => id in receivers) || FILE_PIPELINES.some((id) => id in pipelines);
}

function parseOverlay(text: string): Tree {
  const document = parseDocument(text);
  if (document.errors[0]) throw new CollectorConfigError(`COLLECTOR_CONFIG_FILE is not YAML: ${document.errors[0].message}`);
  const value: unknown = document.toJS();
  if (value !== null && !isTree(value)) throw new CollectorConfigError("COLLECTOR_CONFIG_FILE must be a map, such as {processors: {…}}");
  return value ?? {};
}

/** Rejects a component's former name, which would add a second component instead of changing the existing one. */
function refuseOldNames(overlayTree: Tree): void {
  if (!("k8sattributes" in asTree(overlayTree["processors"]))) return;
  throw new CollectorConfigError(
    "COLLECTOR_CONFIG_FILE: processors.k8sattributes was renamed; use k8s_attributes (OTLP) or k8s_attributes/files (pod logs)",
  );
}

/** Merges maps, and appends to lists in pipelines and to service.extensions. Any other value of the overlay replaces ours. */
function merge(ours: unknown, overlayTree: unknown, path: string[]): unknown {
  if (isTree(ours) && isTree(overlayTree)) {
    const keys = new Set([...Object.keys(ours), ...Object.keys(overlayTree)]);
    return Object.fromEntries(
      [...keys].map((key) => [key, key in overlayTree ? merge(ours[key], overlayTree[key], [...path, key]) : ours[key]]),
    );
  }
  if (Array.isArray(ours) && Array.isArray(overlayTree) && isListOfNames(path)) return [...new Set([...ours, ...overlayTree])];
  return overlayTree;
}

function isListOfNames(path: string[]): boolean {
  return path[0] === "service" && (path[1] === "pipelines" || path[1] === "extensions");
}

/** Removes our components that the overlay sets to null, including from pipelines, and then pipelines without receivers. */
function removeComponentsSetToNull(merged: Tree, ours: Tree, overlayTree: Tree): void {
  const pipelines = asTree(asTree(merged["service"])["pipelines"]);
  for (const kind of KINDS) {
    for (const [id, value] of Object.entries(asTree(overlayTree[kind]))) {
      if (value !== null || !(id in asTree(ours[kind]))) continue;
      delete asTree(merged[kind])[id];
      for (const list of [...Object.values(pipelines).map((pipeline) => asTree(pipeline)[kind]), asTree(merged["service"])[kind]]) {
        if (Array.isArray(list) && list.includes(id)) list.splice(list.indexOf(id), 1);
      }
    }
  }
  for (const [id, pipeline] of Object.entries(pipelines)) {
    const { receivers } = asTree(pipeline);
    if (pipeline === null || (Array.isArray(receivers) && receivers.length === 0)) delete pipelines[id];
  }
}

const HINT = "telemetry may leave the node only through the signing proxy; to allow other destinations, set ALLOW_OTHER_EXPORTERS=true";

function refuseOtherExporters(merged: Tree, ours: Tree): void {
  for (const [id, value] of Object.entries(asTree(merged["exporters"]))) {
    if (id.split("/")[0] === "debug") continue;
    if (!EXPORTERS.includes(id)) throw new CollectorConfigError(`COLLECTOR_CONFIG_FILE adds the exporter ${id}: ${HINT}`);
    const redirected = Object.keys(asTree(value)).find(
      (key) => /endpoint$|^proxy_url$|^auth$|^headers$/.test(key) && asTree(value)[key] !== asTree(asTree(ours["exporters"])[id])[key],
    );
    if (redirected !== undefined)
      throw new CollectorConfigError(`COLLECTOR_CONFIG_FILE changes ${redirected} of the exporter ${id}: ${HINT}`);
  }
  const telemetry = JSON.stringify(asTree(merged["service"])["telemetry"] ?? {});
  if (telemetry.includes('"otlp') || /"output_paths":\[[^\]]*:\/\//.test(telemetry)) {
    throw new CollectorConfigError(`COLLECTOR_CONFIG_FILE changes service.telemetry to send to another destination: ${HINT}`);
  }
}

/** Doubles each `$` in strings, except in our references to variables, which the collector must expand. */
function escapeDollars(value: unknown): unknown {
  if (typeof value === "string") {
    // Only a value that is nothing but such a reference stays unescaped: in a longer value, the collector would expand any other reference too,
    // even one to a file.
    const isExpanded = QUEUE_SIZE.test(value) || EXPANDED_REFERENCES.includes(value.replace(/^127\.0\.0\.1:/, ""));
    return isExpanded ? value : value.replaceAll("$", "$$$$");
  }
  if (Array.isArray(value)) return value.map((item) => escapeDollars(item));
  if (isTree(value)) return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, escapeDollars(item)]));
  return value;
}

function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function asTree(value: unknown): Tree {
  return isTree(value) ? value : {};
}
