// Reads the names of a JSON document's members before it is parsed. The runtime keeps only the last of two members with the same name, and each
// new name costs it a table of its own, so two million of them would block a thread for many seconds. Invariants: one pass over the bytes,
// for any document; nothing is decoded of names that are plain and of values. What is not JSON is left to the parser.
import { randomInt } from "node:crypto";

/** The names and indexes that lead to a member. */
export type JsonPath = readonly (string | number)[];

export interface JsonMembers {
  /** The first member whose object has one of this name before it; nothing behind it was read. */
  readonly twice: JsonPath | undefined;
  /** Objects and lists, at most one more than allowed. */
  readonly containers: number;
  /** Different names by a hash, at most one more than allowed: two in the same slot count as one. */
  readonly names: number;
  /** Integers that a double may round: those of 16 digits and more. */
  readonly longIntegers: readonly Span[];
  readonly escapedNames: readonly Span[];
}

/** `end` is the offset behind it. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

const [QUOTE, COMMA, MINUS, ZERO, NINE] = [0x22, 0x2c, 0x2d, 0x30, 0x39];
const [BACKSLASH, OPEN, CLOSE] = [0x5c, 0x7b, 0x7d];
/** `{` and `}` differ from `[` and `]` by this bit. */
const IS_OBJECT = 0x20;
const MAX_ASCII = 0x7f;
/** Two thirds of the slots are in use at 20,000 names. */
const SLOTS = 2 ** 15;
/** Random per process, so that no sender can construct names with equal hashes. */
const HASH_SEED = randomInt(2 ** 32);
const PRIME = 0x01000193;
/** Objects with more members have a set of names. */
const MAX_COMPARED = 32;
const ROUNDED_DIGITS = 16;
/** Finding a path costs more than reading a member. */
const MAX_PATH_LENGTH = 500;
const MAX_IGNORED = 20;
const MAX_TEXT = 300;
export const GIVEN_TWICE = "is given twice";
const INTEGER = /^-?[1-9]\d*$/;
const NUMBER_BYTES = Uint8Array.from({ length: 256 }, (_, byte) => ("0123456789.eE+-".includes(String.fromCharCode(byte)) ? 1 : 0));

/**
 * Reads until a name is given twice, or a limit is exceeded. Duplicates whose path `isIgnored`, the first few of them, do not count. Throws
 * SyntaxError if a name is none.
 */
export function readMembers(
  json: Buffer,
  max: Pick<JsonMembers, "containers" | "names">,
  isIgnored: (path: JsonPath) => boolean = () => false,
): JsonMembers {
  const open = new OpenContainers(json);
  const slots = new Uint8Array(SLOTS);
  const [longIntegers, escapedNames]: [Span[], Span[]] = [[], []];
  let [containers, names, ignored] = [0, 0, 0];
  let isName = false;
  let twice: JsonPath | undefined;
  for (let at = 0; at < json.length && containers <= max.containers && names <= max.names && !twice; at += 1) {
    const byte = json[at] as number;
    if (byte === QUOTE) {
      const start = at;
      at = stringEnd(json, start);
      if (!isName) continue;
      isName = false;
      const hash = nameHash(json, start, at, escapedNames);
      if (open.addName(hash, start) && (++ignored > MAX_IGNORED || !isIgnored(open.path()))) twice = open.path();
      const slot = (hash ^ (hash >>> 15)) & (SLOTS - 1);
      names += 1 - (slots[slot] as number);
      slots[slot] = 1;
    } else if (byte === COMMA) isName = open.next();
    else if ((byte | IS_OBJECT) === OPEN) {
      containers += 1;
      isName = byte === OPEN;
      open.push(isName, at);
    } else if ((byte | IS_OBJECT) === CLOSE) {
      isName = false;
      open.pop();
    } else if (byte <= NINE && byte >= ZERO && !isName) {
      const start = json[at - 1] === MINUS ? at - 1 : at;
      while (NUMBER_BYTES[json[at + 1] as number] === 1) at += 1;
      if (at - start >= ROUNDED_DIGITS - 1 && INTEGER.test(json.toString("latin1", start, at + 1)))
        longIntegers.push({ start, end: at + 1 });
    }
  }
  return { twice, containers, names, longIntegers, escapedNames };
}

/** The objects and lists around a place in a document, and the names that the objects have before it. */
class OpenContainers {
  readonly #json: Buffer;
  /** Hashes and offsets of the names, in the order of the document. */
  readonly #hashes: number[] = [];
  readonly #offsets: number[] = [];
  #names = 0;
  /** The first name of each object; -1 for a list. */
  readonly #first: number[] = [-1];
  /** The offset of the current name, or the index in a list. The document counts as a list. */
  readonly #places: number[] = [0];
  readonly #sets: (Set<string> | undefined)[] = [undefined];
  #depth = 0;

  constructor(json: Buffer) {
    this.#json = json;
  }

  push(isObject: boolean, at: number): void {
    this.#depth += 1;
    this.#first[this.#depth] = isObject ? this.#names : -1;
    this.#places[this.#depth] = isObject ? at : 0;
    this.#sets[this.#depth] = undefined;
  }

  pop(): void {
    const first = this.#first[this.#depth] as number;
    if (first >= 0) this.#names = first;
    if (this.#depth > 0) this.#depth -= 1;
  }

  /** After a comma: returns whether a name follows. */
  next(): boolean {
    if (this.#first[this.#depth] !== -1) return true;
    (this.#places[this.#depth] as number) += 1;
    return false;
  }

  /** Returns whether the object already has this name. */
  addName(hash: number, start: number): boolean {
    const isKnown = this.#isKnown(hash, start);
    this.#places[this.#depth] = start;
    this.#hashes[this.#names] = hash;
    this.#offsets[this.#names] = start;
    this.#names += 1;
    return isKnown;
  }

  #isKnown(hash: number, start: number): boolean {
    const first = this.#first[this.#depth] as number;
    const name = (at: number): string => nameAt(this.#json, at);
    if (this.#names - first >= MAX_COMPARED) {
      const set = (this.#sets[this.#depth] ??= new Set(this.#offsets.slice(first, this.#names).map(name)));
      return set.size === set.add(name(start)).size;
    }
    for (let index = first; index < this.#names; index += 1)
      if (this.#hashes[index] === hash && name(this.#offsets[index] as number) === name(start)) return true;
    return false;
  }

  path(): JsonPath {
    const places = this.#places.slice(1, Math.min(this.#depth, MAX_PATH_LENGTH) + 1);
    return places.map((place, index) => (this.#first[index + 1] === -1 ? place : nameAt(this.#json, place)));
  }
}

/** `a.b[0].c` */
export function pathText(path: JsonPath): string {
  const steps = path.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("");
  return steps.replace(/^\./, "").slice(0, MAX_TEXT);
}

/** Equal for equal names, however they are escaped. Adds the name to `escapedNames` if it is. */
function nameHash(json: Buffer, start: number, end: number, escapedNames: Span[]): number {
  let hash = HASH_SEED;
  for (let at = start + 1; at < end; at += 1) {
    const byte = json[at] as number;
    if (byte === BACKSLASH) escapedNames.push({ start, end: end + 1 });
    if (byte === BACKSLASH || byte > MAX_ASCII) return textHash(nameAt(json, start));
    hash = Math.imul(hash ^ byte, PRIME);
  }
  return hash;
}

function textHash(text: string): number {
  let hash = HASH_SEED;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), PRIME);
  return hash;
}

/** The offset of the closing quote, at most that of the document's end. */
function stringEnd(json: Buffer, start: number): number {
  let at = start + 1;
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return at;
}

/**
 * The text of a document with its escaped names in UTF-8, and with `longIntegers` as texts. V8 may take an escaped name for one that ends with
 * a backslash and was in an earlier document, so one sender could rename the labels of another (nodejs/node#63785).
 */
export function textOf(json: Buffer, { escapedNames, longIntegers }: Pick<JsonMembers, "escapedNames" | "longIntegers">): string {
  const spans = [...escapedNames, ...longIntegers].sort((a, b) => a.start - b.start);
  let at = 0;
  const parts = spans.map(({ start, end }) => {
    const before = json.toString("utf8", at, start);
    at = end;
    return before + JSON.stringify(json[start] === QUOTE ? nameAt(json, start) : json.toString("latin1", start, end));
  });
  return parts.join("") + json.toString("utf8", at);
}

/** As it can be stored: half of a surrogate pair becomes U+FFFD. */
function nameAt(json: Buffer, start: number): string {
  return (JSON.parse(json.toString("utf8", start, stringEnd(json, start) + 1)) as string).toWellFormed();
}
