// Recognises batches of log file lines that an agent of the former release delivered: it recorded a hash of each batch instead of its lines.
// After an upgrade with a full queue, the collector cuts the lines that follow its stored offsets into the same batches again; only the last
// batch of a file has more lines if the file has grown. To be removed after one release.
import { createHash } from "node:crypto";
import { MAX_RESENT_BATCHES } from "../../agent-limits.ts";
import { ROTATED } from "./line-hash.ts";

const KEY_LENGTH = 20;
const HEAD_BYTES = 24;

/** Key and time of reading, in Unix milliseconds, of the batches in the former record. */
export function readFormerBatches(record: string): [key: string, readAtMs: number][] {
  const batches = [...record.matchAll(/^batch (\d+) (\S+)$/gm)].slice(-MAX_RESENT_BATCHES);
  return batches.map(([, readAtMs, key = ""]) => [key, Number(readAtMs)]);
}

/** Computes the former keys of a batch, whose lines are passed to `keyOf` in turn. */
export class FormerKeys {
  readonly #body: Buffer;
  readonly #paths: string[] = [];
  readonly #texts: Buffer[] = [];
  /** Offsets, paths, texts and times of the lines. */
  readonly #columns: [string[], string[], string[], string[]] = [[], [], [], []];
  #path: string | undefined;

  constructor(body: Buffer) {
    this.#body = body;
  }

  /** As in LineHash. */
  keyOf(path: string, offset: number, timeAt: number, textStart: number, textEnd: number): number {
    const time = timeAt === 0 ? 0n : this.#body.readBigUInt64LE(timeAt);
    const text = this.#body.subarray(textStart, textEnd);
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeDoubleLE(offset, 0);
    head.writeDoubleLE(text.length, 8);
    head.writeBigUInt64LE(time, 16);
    const file = path.replace(ROTATED, ".log");
    this.#paths.push(path === this.#path ? "" : `${this.#paths.length} ${file}\n`);
    this.#path = path;
    this.#texts.push(Buffer.concat([head, text]));
    const [offsets, paths, texts, times] = this.#columns;
    offsets.push(`${offset}"`);
    paths.push(inJson(file));
    texts.push(inJson(text.toString().trim()));
    times.push(time === 0n ? "" : `${time}"`);
    return 0;
  }

  /**
   * The keys of the first lines of the batch: that of an agent that received protobuf, and that of one that received JSON, and whose
   * collector removed spaces around lines.
   */
  of(lines: number): string[] {
    const columns = this.#columns.map((values) => `${values.slice(0, lines).join("")}\n`);
    return [hash(Buffer.from(this.#paths.slice(0, lines).join("")), ...this.#texts.slice(0, lines)), hash(Buffer.from(columns.join("")))];
  }
}

/** With its second quote. */
function inJson(text: string): string {
  return JSON.stringify(text).slice(1);
}

function hash(...parts: readonly Buffer[]): string {
  return createHash("sha256").update(Buffer.concat(parts)).digest("base64url").slice(0, KEY_LENGTH);
}
