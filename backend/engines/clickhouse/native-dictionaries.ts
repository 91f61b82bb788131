// Joins the dictionaries of many sections into one LowCardinality(String) of ClickHouse's Native format
// (SerializationLowCardinality.cpp), so that the engine hashes each string once instead of once per row. Invariant: the block has the
// strings of its sections in their order.
import type { TimeSlices } from "../../admission/time-slices.ts";
import { encodedStrings, latin1 } from "./native-columns.ts";

/** Flags: the block has its own, complete dictionary. The width of the numbers is added: 0 for 8 bits, 2 for 32. */
const OWN_DICTIONARY = 0x600;
const MAX_SHORT_NUMBERS = 0x100;
/** Different dictionaries that are remembered while a block is built, of at most 8 KiB each. */
const MAX_REMEMBERED = 256;

/** The version at the start of the column. */
export const KEYS_VERSION = words(1);

/**
 * Undefined if a section has no dictionary. `numbers`: one byte per row of a section, or per pair of a map. The work is done in slices,
 * because senders may send thousands of bodies a second, each with different keys.
 */
export async function lowCardinality(
  dictionaries: readonly Uint8Array[],
  numbers: readonly Uint8Array[],
  slices: TimeSlices,
): Promise<Uint8Array[] | undefined> {
  if (dictionaries.some(({ length }, index) => length === 0 && numbers[index]?.length !== 0)) return undefined;
  const count = numbers.reduce((sum, { length }) => sum + length, 0);
  // The engine expects no bytes for a column of empty maps.
  if (count === 0) return [];
  const known = new Map<string, number>();
  const strings: Uint8Array[] = [];
  // Most bodies of a block have the same dictionary.
  const earlier = new Map<string, readonly number[]>();
  const joined = await slices.map(dictionaries, (dictionary) => {
    const whole = latin1(dictionary);
    const same = earlier.get(whole);
    if (same) return same;
    const added: Uint8Array[] = [];
    const inBlock = Array.from(encodedStrings(dictionary), (string) => {
      const text = latin1(string);
      const number = known.get(text) ?? known.size;
      if (number === known.size) added.push(string);
      known.set(text, number);
      return number;
    });
    if (added.length > 0) strings.push(Buffer.concat(added));
    if (earlier.size < MAX_REMEMBERED) earlier.set(whole, inBlock);
    return inBlock;
  });
  const isShort = known.size <= MAX_SHORT_NUMBERS;
  const all = isShort ? new Uint8Array(count) : new Uint32Array(count);
  let at = 0;
  await slices.map([...numbers.entries()], ([index, section]) => {
    renumber(section, joined[index] ?? [], all, at);
    at += section.length;
  });
  return [words(OWN_DICTIONARY + (isShort ? 0 : 2), known.size), ...strings, words(count), new Uint8Array(all.buffer)];
}

function renumber(section: Uint8Array, joined: readonly number[], all: Uint8Array | Uint32Array, from: number): void {
  if (joined.every((number, index) => number === index)) return all.set(section, from);
  let at = from;
  for (const number of section) all[at++] = joined[number] ?? 0;
}

/**
 * The strings of all sections, without dictionaries. This work is done in slices, too, because one body without a dictionary causes it for
 * all others.
 */
export async function plainStrings(
  dictionaries: readonly Uint8Array[],
  cells: readonly Uint8Array[],
  slices: TimeSlices,
): Promise<Uint8Array[]> {
  return await slices.map([...cells.entries()], ([index, numbers]) => {
    const strings = [...encodedStrings(dictionaries[index] ?? new Uint8Array())];
    return strings.length === 0 ? numbers : Buffer.concat(Array.from(numbers, (number) => strings[number] ?? new Uint8Array()));
  });
}

function words(...values: number[]): Uint8Array {
  return new Uint8Array(BigUint64Array.from(values, BigInt).buffer);
}
