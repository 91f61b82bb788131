// Shortens columns with many equal strings: each distinct string is written once, and its number, one byte, for each row, as
// DictionaryColumn of backend/engines/clickhouse/native-columns.ts does. Invariant: all other streams, and the order of the streams, remain
// unchanged.
import { copy, same } from "../../kernel/bytes";
import { hashOf, MAX_WORDS, MAX_WORDS_BYTES, WORD_ENTRIES, WORD_SLOT_COUNT, WORD_SLOTS, WORDS } from "./memory";
import { STREAM_LENGTHS } from "./rows";

const PLAIN_LENGTHS: usize = memory.data(96, 8);
const NO_DICTIONARY: u32 = 0xffffffff;

let wordsBytes: u32 = 0;
/** The address of the text of the string that `stringLength` read last. */
let textAt: usize = 0;

/**
 * Shortens the streams between `at` and `end`, whose lengths are in STREAM_LENGTHS, and updates these; returns the new end. `dictionaries`
 * has a bit for each stream that may get a dictionary. After `end` there must be space for one byte per string of a stream.
 */
export function shorten(at: usize, end: usize, streams: u32, dictionaries: u32): usize {
  memory.copy(PLAIN_LENGTHS, STREAM_LENGTHS, streams * 4);
  let from = at;
  let lengthAt = STREAM_LENGTHS;
  for (let index: u32 = 0; index < streams; index++) {
    const length = load<u32>(PLAIN_LENGTHS + index * 4);
    let bytes = length;
    let source = from;
    if ((dictionaries >> index) & 1) {
      const numbers = numbered(from, length, end);
      const isShorter = numbers != NO_DICTIONARY && wordsBytes + numbers < length;
      if (isShorter) {
        memory.copy(at, WORDS, wordsBytes);
        at += wordsBytes;
        source = end;
        bytes = numbers;
      }
      store<u32>(lengthAt, isShorter ? wordsBytes : 0);
      lengthAt += 4;
    }
    memory.copy(at, source, bytes);
    store<u32>(lengthAt, bytes);
    lengthAt += 4;
    at += bytes;
    from += length;
  }
  return at;
}

/**
 * Collects the distinct strings of a stream at WORDS and writes the number of each string to `to`; returns how many distinct strings there
 * are.
 */
function numbered(from: usize, length: u32, to: usize): u32 {
  memory.fill(WORD_SLOTS, 0, WORD_SLOT_COUNT);
  wordsBytes = 0;
  let words: u32 = 0;
  const start = to;
  for (const end = from + length; from < end;) {
    const bytes = stringLength(from);
    let slot = hashOf(textAt, bytes - <u32>(textAt - from)) & (WORD_SLOT_COUNT - 1);
    let number: u32;
    while (true) {
      number = load<u8>(WORD_SLOTS + slot);
      if (number == 0) {
        if (words == MAX_WORDS || wordsBytes + bytes > MAX_WORDS_BYTES) return NO_DICTIONARY;
        addWord(from, bytes, words);
        words++;
        number = words;
        store<u8>(WORD_SLOTS + slot, <u8>number);
        break;
      }
      const entry = WORD_ENTRIES + (number - 1) * 8;
      if (load<u32>(entry, 4) == bytes && same(load<u32>(entry), from, bytes)) break;
      slot = (slot + 1) & (WORD_SLOT_COUNT - 1);
    }
    store<u8>(to, <u8>(number - 1));
    to++;
    from += bytes;
  }
  return <u32>(to - start);
}

function addWord(from: usize, bytes: u32, number: u32): void {
  const entry = WORD_ENTRIES + number * 8;
  store<u32>(entry, WORDS + wordsBytes);
  store<u32>(entry, bytes, 4);
  copy(WORDS + wordsBytes, from, bytes);
  wordsBytes += bytes;
}

/** The size of an encoded string, including its length. */
function stringLength(from: usize): u32 {
  let at = from;
  let length: u32 = 0;
  let shift: u32 = 0;
  let byte: u32 = 0x80;
  while (byte > 0x7f) {
    byte = load<u8>(at);
    at++;
    length |= (byte & 0x7f) << shift;
    shift += 7;
  }
  textAt = at;
  return <u32>(at - from) + length;
}
