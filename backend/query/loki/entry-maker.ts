// Rows of the table logs as entries, with their labels by the names that Loki gives them. Invariant: an attribute without a value gives way
// to every other label of its name.
import { Entry } from "./entry.ts";
import { labelName, OWN_LABELS, STREAM_LABELS } from "./label-names.ts";

const OWN: ReadonlySet<string> = new Set(OWN_LABELS);

/** As records.ts selects it. */
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
}

/** Records of one sender have the same labels of the stream. */
export class EntryMaker {
  readonly #streams = new Map<string, ReadonlyMap<string, string>>();
  readonly #names = new Map<string, string>();

  of(row: Row): Entry {
    const own: [string, string][] = [];
    const metadata: [string, string][] = [];
    const empty: [string, string][] = [];
    for (const name of ["trace_id", "span_id", "scope_name"] as const) if (row[name] !== "") metadata.push([name, row[name]]);
    if (row.severity_number > 0) metadata.push(["severity_number", String(row.severity_number)]);
    for (const [key, value] of Object.entries(row.labels)) {
      const name = this.#nameOf(key);
      const isOfStream = STREAM_LABELS.get(name) === key;
      if (value === "") {
        if (!isOfStream && !OWN.has(name)) empty.push([name, value]);
      } else if (isOfStream) own.push([name, value]);
      else metadata.push([name, value]);
    }
    // An attribute of this name counts more.
    metadata.push(["detected_level", row.level], ...empty);
    return new Entry(BigInt(row.ns), row.line, this.#streamOf(row, own), metadata);
  }

  #streamOf({ source, level, host_id, node }: Row, own: readonly [string, string][]): ReadonlyMap<string, string> {
    const labels: [string, string][] = [["service_name", source], ["level", level], ["host_id", host_id], ["node", node], ...own];
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
