// Finds the level in the head of a plain line: dates, times, numbers and text in brackets, before the message. The first word there that names a
// level counts if it is in capitals, or if a colon, a tab, `|` or the end of its brackets follows it. After a time, a level in capitals counts
// among the first words of the message, too. The collector has the same rule as a regular expression
// (agent/collector/config/fragments/level-of-head.ts). Invariant: only the first MAX_HEAD_BYTES are read, each once.
import { COLON, isDigit } from "../../kernel/json";
import { asWord, isOneOf, levelOf, setLevel } from "./line-fields";

const MAX_HEAD_BYTES: usize = 128;
/** Words from the time to a level in the message, with the time. */
const MAX_WORDS: u32 = 6;

// Kinds of bytes of a word, which are bits, and of separators, which are larger.
const DIGIT: u8 = 1;
const CAPITAL: u8 = 2;
const SMALL: u8 = 4;
/** One of - . * # + / ~ */
const SIGN: u8 = 8;
const EQUALS: u8 = 16;
const QUOTE: u8 = 32;
const OTHER: u8 = 64;
const BLANK: u8 = 128;
/** One of [({< */
const OPENING: u8 = 129;
/** One of ])}> */
const CLOSING: u8 = 130;
/** One of |:,; */
const SEPARATOR: u8 = 131;

const TAB: u8 = 0x09;
const POINT: u8 = 0x2e;
const BAR: u8 = 0x7c;
const SLASH: u8 = 0x2f;

const KINDS: usize = memory.data(256, 16);
memory.fill(KINDS, OTHER, 256);
memory.fill(KINDS + 0x30, DIGIT, 10);
memory.fill(KINDS + 0x41, CAPITAL, 26);
memory.fill(KINDS + 0x61, SMALL, 26);
setKind(SIGN, text("-.*#+/~"), 7);
setKind(EQUALS, text("="), 1);
setKind(QUOTE, text('"'), 1);
setKind(BLANK, memory.data<u8>([0x20, 0x09, 0x0a, 0x0d]), 4);
setKind(OPENING, text("[({<"), 4);
setKind(CLOSING, text("])}>"), 4);
setKind(SEPARATOR, text("|:,;"), 4);

function setKind(kind: u8, bytes: usize, count: usize): void {
  for (let index: usize = 0; index < count; index++) store<u8>(KINDS + load<u8>(bytes + index), kind);
}

function kindOf(at: usize): u8 {
  return load<u8>(KINDS + load<u8>(at));
}

/** Sets the level of the line from `at` to `end`. Of an indented line, such as a member of a printed object, `error: ` is no level. */
export function readHead(at: usize, end: usize, isIndented: bool): void {
  if (end - at > MAX_HEAD_BYTES) end = at + MAX_HEAD_BYTES;
  let isHead = true;
  let isTimed = false;
  let isInside = false;
  /** The last separator after the word before, except blanks. */
  let mark: u8 = 0;
  /** Words that have ended since the time. */
  let words: u32 = 0;
  while (at < end) {
    let kind = kindOf(at);
    if (kind >= BLANK) {
      if (kind == OPENING) isInside = true;
      else if (kind == CLOSING) isInside = false;
      if (kind != BLANK) mark = load<u8>(at);
      else if (isTimed && kindOf(at - 1) != BLANK) words++;
      at++;
      continue;
    }
    if (!isHead && (!isTimed || words > MAX_WORDS)) return;
    const start = at;
    let kinds: u8 = 0;
    do {
      kinds |= kind;
      at++;
      kind = at < end ? kindOf(at) : BLANK;
    } while (kind < BLANK);
    let level = kinds & CAPITAL ? capitalLevel(start, at) : 0;
    if (level == 0 && isHead && !(kinds & ~(CAPITAL | SMALL)) && (isTimed || !isIndented)) {
      const canBeMarked = !isInside || mark == 0x5b || mark == 0x3c || mark == COLON;
      if (canBeMarked && isMarked(at, end)) level = anyLevel(start, at);
    }
    if (level != 0) return setLevel(level);
    if (isHead) {
      isHead = isInside ? !(kinds & QUOTE) : isOfHead(start, at, kinds);
      if (isHead && at - start >= 2 && end - at >= 6 && isClock(at - 2)) {
        isTimed = true;
        words = 0;
      }
    }
    mark = 0;
  }
}

/** `ERROR`, `INFO/MainProcess` or `channel.ERROR`; 0 if the word is none. */
function capitalLevel(at: usize, end: usize): u32 {
  while (at < end) {
    const stop = capitalsEnd(at, end);
    const level = stop == end || load<u8>(stop) == SLASH ? namedLevel(at, stop) : 0;
    if (level != 0) return level;
    at = stop;
    while (at < end && load<u8>(at) != POINT) at++;
    at++;
  }
  return 0;
}

/** The letters with which names of levels begin, acdefinpstvw, as bits. */
const FIRST_LETTERS: u32 = 7119165;

/** The level that the letters name; most words begin with another letter or are too short, so their names are not compared. */
function namedLevel(at: usize, end: usize): u32 {
  if (end - at < 3 || !((FIRST_LETTERS >> ((load<u8>(at) | 0x20) - 0x61)) & 1)) return 0;
  return levelOf(at, end);
}

function capitalsEnd(at: usize, end: usize): usize {
  while (at < end && kindOf(at) == CAPITAL) at++;
  return at;
}

/** Whether what follows a word marks it as a level in any case: `error: `, `[error]`, `<Error> `, a tab or `|`. */
function isMarked(at: usize, end: usize): bool {
  if (at == end) return false;
  const after = load<u8>(at);
  if (after == TAB || after == BAR) return true;
  if (after == COLON) return at + 1 == end || kindOf(at + 1) == BLANK;
  while (at < end && kindOf(at) == BLANK) at++;
  if (at == end) return false;
  return load<u8>(at) == 0x5d || (load<u8>(at) == 0x3e && at + 1 < end && kindOf(at + 1) == BLANK);
}

/** The words of .NET's console, which are no values of a field `level`. */
const DOTNET_WORDS = words("trce", "dbug", "fail");

function anyLevel(start: usize, end: usize): u32 {
  const level = namedLevel(start, end);
  if (level != 0 || end - start != 4) return level;
  const word = asWord(v128.or(v128.load(start), i8x16.splat(0x20)), 4);
  if (isOneOf(word, DOTNET_WORDS, 1)) return 1;
  if (isOneOf(word, DOTNET_WORDS + 16, 1)) return 2;
  return isOneOf(word, DOTNET_WORDS + 32, 1) ? 5 : 0;
}

const DATE_WORDS = words("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec");
const HEAD_WORDS = words("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "AM", "PM", "UTC", "GMT", "PHP");

/** Whether the word outside of brackets can precede the level. */
function isOfHead(start: usize, end: usize, kinds: u8): bool {
  if (kinds & (QUOTE | EQUALS)) return false;
  if (kinds & DIGIT || kinds == SIGN) return true;
  if (!(kinds & CAPITAL) || kinds & ~(CAPITAL | SMALL) || end - start > 3) return false;
  if (end - start == 1) return true;
  const word = asWord(v128.load(start), <u8>(end - start));
  return isOneOf(word, DATE_WORDS, 12) || isOneOf(word, HEAD_WORDS, 12);
}

/** `10:00:00` */
export function isClock(at: usize): bool {
  return areTwoDigits(at) && load<u8>(at, 2) == COLON && areTwoDigits(at + 3) && load<u8>(at, 5) == COLON && areTwoDigits(at + 6);
}

function areTwoDigits(at: usize): bool {
  return isDigit(load<u8>(at)) && isDigit(load<u8>(at, 1));
}
