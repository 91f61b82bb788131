// Bounds the labels that an expression builds. The engine writes the length of a name or value in 16 bits and panics at a longer one
// (promql/timeseries.go, marshalBytesFast), nested calls could build one of gigabytes, and each series gets its own copy, which no limit of
// the engine's memory counts. Invariant: no function gets or returns a label of more than MAX_LABEL_BYTES, as long as stored ones have at
// most STORED_BYTES, and at most MAX_TEXT_BYTES of it are texts of the expression.
import { ExpressionError } from "./expression-tokens.ts";

const MAX_LABEL_BYTES = 65_535;
const STORED_BYTES = 4096;
const MAX_TEXT_BYTES = 8192;

interface Call {
  readonly name: string;
  commas: number;
  readonly texts: string[];
  /** How many times longer than stored and written texts the labels of its arguments can be. */
  growth: number;
}

/** The growth of a call's labels by its arguments, for functions that can make them longer. */
const GROWTH: Readonly<Record<string, (call: Call) => number>> = {
  label_join: ({ commas }) => commas - 2,
  label_replace: ({ texts }) => references(texts.at(-3)),
  // Replaces each match, and also matches between characters.
  label_transform: ({ texts }) => 1 + Buffer.byteLength(texts.at(-1) ?? "") - 2 + references(texts.at(-1)),
  label_graphite_group: ({ commas }) => commas,
  label_lowercase: () => 2,
  label_uppercase: () => 2,
};
/** An argument that is not written out could have any text. */
const OF_STRINGS = new Set(["label_join", "label_replace", "label_transform"]);

export class LabelGrowth {
  readonly #calls: Call[] = [newCall("")];
  #textBytes = 0;

  /** An opening bracket; `name`: the lowercase word before it. */
  open(name: string): void {
    this.#calls.push(newCall(name));
  }

  text(text: string): void {
    this.#calls.at(-1)?.texts.push(text);
    this.#textBytes += Buffer.byteLength(text);
  }

  comma(): void {
    const call = this.#calls.at(-1);
    if (call) call.commas += 1;
  }

  close(): void {
    const call = this.#calls.pop();
    const parent = this.#calls.at(-1);
    if (!call || !parent) return;
    const { name, commas, texts } = call;
    if (OF_STRINGS.has(name) && texts.length !== commas)
      throw new ExpressionError(`takes ${name} with a query first, and strings after it`);
    parent.growth = Math.max(parent.growth, call.growth * Math.max(1, GROWTH[name]?.(call) ?? 1));
    this.end(parent);
  }

  end(call = this.#calls[0]): void {
    const growth = call?.growth ?? 1;
    if (growth * this.#textBytes > MAX_TEXT_BYTES)
      throw new ExpressionError(`takes at most ${MAX_TEXT_BYTES} bytes of text as function arguments; repeated text counts several times`);
    if (growth * (STORED_BYTES + this.#textBytes) > MAX_LABEL_BYTES)
      throw new ExpressionError("builds labels that could have more than 64 KiB: join or replace fewer of them");
  }
}

function newCall(name: string): Call {
  return { name, commas: 0, texts: [], growth: 1 };
}

/** At least the number of references such as `$1`; an escape can stand for a dollar sign. */
function references(text = ""): number {
  return text.match(/[$\\]/g)?.length ?? 0;
}
