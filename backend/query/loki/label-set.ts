// The labels of a series: sorted, and told apart by one text. Invariant: two sets with the same labels have the same key.

export class LabelSet {
  readonly entries: readonly (readonly [name: string, value: string])[];
  readonly key: string;

  constructor(entries: Iterable<readonly [string, string]>) {
    this.entries = [...entries].sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
    this.key = JSON.stringify(this.entries);
  }

  get(name: string): string {
    return this.entries.find(([own]) => own === name)?.[1] ?? "";
  }

  keep(names: readonly string[]): LabelSet {
    return new LabelSet(this.entries.filter(([name]) => names.includes(name)));
  }

  drop(names: readonly string[]): LabelSet {
    return new LabelSet(this.entries.filter(([name]) => !names.includes(name)));
  }

  /** An empty value takes the label away. */
  with(name: string, value: string): LabelSet {
    const rest = this.entries.filter(([own]) => own !== name);
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
