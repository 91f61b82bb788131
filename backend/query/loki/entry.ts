// Represents a log record on its way through the stages of a query, with its labels. Invariants: labels of the stream, structured metadata
// and labels parsed from the line are separate; if two have the same name, the parsed one takes precedence; every name can be written in
// LogQL.
import { checkLength } from "./regex.ts";

/** Labels that every record has. */
export const RECORD_LABELS = ["service_name", "level", "host_id", "node"] as const;

/** An attribute or a label parsed from the line with this name replaces the record's level; detected_level stays. */
export const SOFT_LABEL = "level";

/** Labels parsed from the line never replace these. */
export const STABLE_LABELS: ReadonlySet<string> = new Set(["service_name", "host_id", "node", "detected_level"]);

/** Attributes that are labels of the stream, as in Loki's own settings for OTLP; all others are structured metadata. */
const STREAM_ATTRIBUTES = (
  "cloud.availability_zone cloud.region container.name deployment.environment deployment.environment.name k8s.cluster.name " +
  "k8s.container.name k8s.cronjob.name k8s.daemonset.name k8s.deployment.name k8s.job.name k8s.namespace.name k8s.node.name " +
  "k8s.pod.name k8s.replicaset.name k8s.statefulset.name service.instance.id service.namespace"
).split(" ");

/** Label name → attribute. */
export const STREAM_LABELS: ReadonlyMap<string, string> = new Map(STREAM_ATTRIBUTES.map((key) => [labelName(key), key]));

const EXTRACTED = "_extracted";

export function labelName(key: string): string {
  return (/^\d/.test(key) ? `_${key}` : key).replaceAll(/[^a-zA-Z0-9_]/gu, "_");
}

/** The name that a label gets if another label of the same name takes precedence. */
export function extractedName(name: string): string {
  return `${name}${EXTRACTED}`;
}

export function withoutExtracted(name: string): string | undefined {
  return name.endsWith(EXTRACTED) ? name.slice(0, -EXTRACTED.length) : undefined;
}

export class LabelSet {
  readonly entries: readonly (readonly [name: string, value: string])[];
  readonly key: string;

  constructor(entries: Iterable<readonly [string, string]>) {
    this.entries = [...entries].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.key = JSON.stringify(this.entries);
  }

  get(name: string): string {
    return this.entries.find(([label]) => label === name)?.[1] ?? "";
  }

  keep(names: readonly string[]): LabelSet {
    return new LabelSet(this.entries.filter(([name]) => names.includes(name)));
  }

  drop(names: readonly string[]): LabelSet {
    return new LabelSet(this.entries.filter(([name]) => !names.includes(name)));
  }

  /** An empty value removes the label. */
  with(name: string, value: string): LabelSet {
    const rest = this.entries.filter(([label]) => label !== name);
    return new LabelSet(value === "" ? rest : [...rest, [name, value]]);
  }

  toObject(): Record<string, string> {
    return Object.fromEntries(this.entries);
  }

  toString(): string {
    return `{${this.entries.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(", ")}}`;
  }
}

export const NO_LABELS = new LabelSet([]);

export interface Sample {
  readonly labels: LabelSet;
  readonly value: number;
}

export interface Series {
  readonly labels: LabelSet;
  /** Values by the number of the evaluation time. */
  readonly points: [stepIndex: number, value: number][];
}

export type Category = "stream" | "metadata" | "parsed";

export class Entry {
  readonly timeNs: bigint;
  line: string;
  /** The stored row. */
  row: Row | undefined;
  /** The error of a stage; empty if there is none. */
  error = "";
  errorDetails = "";
  readonly #stream: ReadonlyMap<string, string>;
  readonly #metadata = new Map<string, string>();
  readonly #parsed = new Map<string, string>();
  readonly #deleted = new Set<string>();
  /** Names that a stage has already set; values that later stages read from the line do not change them. */
  readonly #settled = new Set<string>();

  constructor(timeNs: bigint, line: string, stream: ReadonlyMap<string, string>, metadata: Iterable<readonly [string, string]>) {
    this.timeNs = timeNs;
    this.line = line;
    this.#stream = stream;
    for (const [name, value] of metadata) {
      const uniqueName = stream.has(name) && name !== SOFT_LABEL ? extractedName(name) : name;
      if (!this.#metadata.has(uniqueName)) this.#metadata.set(uniqueName, value);
    }
  }

  /** Returns undefined if the label is missing. Throws ApiError query_too_expensive if the value is longer than stages may read. */
  get(name: string): string | undefined {
    const value = this.#metadata.get(name) ?? this.#parsed.get(name);
    if (value !== undefined) {
      checkLength(value, "an attribute");
      return value;
    }
    return this.#deleted.has(name) ? undefined : this.#stream.get(name);
  }

  /** The value for grouping: an empty attribute counts as no label, as in ClickHouse. */
  groupValueOf(name: string): string | undefined {
    const value = this.get(name);
    return value === "" && !this.#parsed.has(name) ? undefined : value;
  }

  /** The value that a filter compares: a missing label counts as empty. */
  valueOf(name: string): string {
    return name === "__error__" ? this.error : (this.get(name) ?? "");
  }

  set(name: string, value: string): void {
    this.#metadata.delete(name);
    this.#parsed.set(name, value);
    this.#settled.add(name);
  }

  /** Adds a label parsed from the line, next to existing labels. Returns false if the name is settled. */
  extract(name: string, value: string): boolean {
    const uniqueName = this.nameFor(name);
    if (this.#settled.has(uniqueName)) return false;
    this.set(uniqueName, value);
    return true;
  }

  /** The name for a label that was read from the line. */
  nameFor(name: string): string {
    return (this.#stream.has(name) && name !== SOFT_LABEL) || this.#metadata.has(name) ? extractedName(name) : name;
  }

  isSettled(name: string): boolean {
    return this.#settled.has(name);
  }

  delete(name: string): void {
    this.#metadata.delete(name);
    this.#parsed.delete(name);
    this.#deleted.add(name);
  }

  fail(error: string, details: string): void {
    this.error = error;
    this.errorDetails = details;
  }

  /** All labels except errors. */
  *labels(): Generator<readonly [name: string, value: string, category: Category]> {
    for (const [name, value] of this.#stream) {
      if (!this.#deleted.has(name) && !this.#metadata.has(name) && !this.#parsed.has(name)) yield [name, value, "stream"];
    }
    for (const [name, value] of this.#metadata) if (!this.#parsed.has(name)) yield [name, value, "metadata"];
    for (const [name, value] of this.#parsed) yield [name, value, "parsed"];
    if (this.error) yield ["__error__", this.error, "parsed"];
    if (this.errorDetails) yield ["__error_details__", this.errorDetails, "parsed"];
  }
}

const RECORD_LABEL_SET: ReadonlySet<string> = new Set(RECORD_LABELS);

/** A row in the columns that range-points.ts selects. */
export interface Row {
  readonly ns: string;
  readonly level: string;
  readonly source: string;
  readonly host_id: string;
  readonly node: string;
  readonly trace_id: string;
  readonly span_id: string;
  readonly severity_number: number;
  readonly scope_name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly line: string;
  /** Set if `hasIds` was requested. */
  readonly row_id?: string;
}

/** Creates entries; records of one sender share their stream labels. */
export class EntryFactory {
  readonly #streams = new Map<string, ReadonlyMap<string, string>>();
  readonly #names = new Map<string, string>();

  create(row: Row): Entry {
    const streamLabels: [string, string][] = [];
    const metadata: [string, string][] = [];
    const empty: [string, string][] = [];
    for (const name of ["trace_id", "span_id", "scope_name"] as const) if (row[name] !== "") metadata.push([name, row[name]]);
    if (row.severity_number > 0) metadata.push(["severity_number", String(row.severity_number)]);
    for (const [key, value] of Object.entries(row.labels)) {
      const name = this.#nameOf(key);
      const isOfStream = STREAM_LABELS.get(name) === key;
      if (value === "") {
        if (!isOfStream && !RECORD_LABEL_SET.has(name)) empty.push([name, value]);
      } else if (isOfStream) streamLabels.push([name, value]);
      else metadata.push([name, value]);
    }
    // An attribute with this name takes precedence.
    metadata.push(["detected_level", row.level], ...empty);
    const entry = new Entry(BigInt(row.ns), row.line, this.#streamOf(row, streamLabels), metadata);
    entry.row = row;
    return entry;
  }

  #streamOf({ source, level, host_id, node }: Row, streamLabels: readonly [string, string][]): ReadonlyMap<string, string> {
    const labels: [string, string][] = [["service_name", source], ["level", level], ["host_id", host_id], ["node", node], ...streamLabels];
    const key = JSON.stringify(labels);
    const known = this.#streams.get(key);
    if (known) return known;
    const stream = new Map(labels.filter(([, value]) => value !== ""));
    if (this.#streams.size < 10_000) this.#streams.set(key, stream);
    return stream;
  }

  #nameOf(key: string): string {
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    const name = labelName(key);
    if (this.#names.size < 10_000) this.#names.set(key, name);
    return name;
  }
}
