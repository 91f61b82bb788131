// Converts one metric: its name and unit, then its points, each to one or more lines. Invariants: the host converts a metric whose name or
// unit follows its points; a sum states its type only after its points, so its name is guessed, and its lines are written again if the
// guess was wrong.
import { fallBack, TOO_LARGE, UNUSUAL } from "../../../common/kernel/bytes";
import * as json from "../../../common/kernel/json";
import { answerAt, answerLength, COUNTER_NAME, find, GAUGE_NAME, OTHER_NAME } from "./dictionary";
import { histogramPoint } from "./histogram";
import { GUESS_COUNT, GUESSES, MAX_NAME_BYTES, NAME } from "./memory";
import { cutTo, textBytes } from "./output";
import { lastTimeAt, lastTimeLength, numberPoint, setLastTime } from "./points";

const GAUGE: u32 = 8;
const SUM: u32 = 16;
const HISTOGRAM: u32 = 32;
const KINDS: u32 = GAUGE | SUM | HISTOGRAM;

/** Key of the current metric: name, 0xff, unit. */
let keyLength: u32 = 0;
let points: u32 = 0;

export function metric(at: usize): usize {
  let seen: u32 = 0;
  let textAt: usize = 0;
  let textLength: u32 = 0;
  let unitAt: usize = 0;
  let unitLength: u32 = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("name", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 1);
      const end = plainString(at);
      textAt = at + 1;
      textLength = <u32>(end - textAt - 1);
      at = end;
    } else if (isText("unit", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 2);
      const end = plainString(at);
      unitAt = at + 1;
      unitLength = <u32>(end - unitAt - 1);
      at = end;
    } else {
      const kind = kindOf();
      if (kind == 0) {
        at = json.skip(at, 0);
        continue;
      }
      if ((seen & 1) == 0 || seen & KINDS) fallBack(UNUSUAL);
      // Members that belong before the points may not follow them.
      seen |= kind | 2;
      makeKey(textAt, textLength, unitAt, unitLength);
      at = kind == SUM ? sum(at) : data(at, kind, kind == GAUGE ? GAUGE_NAME : OTHER_NAME);
    }
  }
  return at + 1;
}

function kindOf(): u32 {
  if (isText("gauge", json.nameAt, json.nameLength)) return GAUGE;
  if (isText("sum", json.nameAt, json.nameLength)) return SUM;
  if (isText("histogram", json.nameAt, json.nameLength)) return HISTOGRAM;
  if (isText("summary", json.nameAt, json.nameLength) || isText("exponentialHistogram", json.nameAt, json.nameLength)) fallBack(UNUSUAL);
  return 0;
}

/** A string without escapes; returns the address after it. */
function plainString(at: usize): usize {
  if (load<u8>(at) != json.QUOTE) fallBack(UNUSUAL);
  const end = json.stringStop(at + 1);
  if (load<u8>(end) != json.QUOTE) fallBack(UNUSUAL);
  return end + 1;
}

function makeKey(textAt: usize, textLength: u32, unitAt: usize, unitLength: u32): void {
  if (textLength > MAX_NAME_BYTES || unitLength >= MAX_NAME_BYTES) fallBack(TOO_LARGE);
  memory.copy(NAME, textAt, textLength);
  store<u8>(NAME + textLength, 0xff);
  memory.copy(NAME + textLength + 1, unitAt, unitLength);
  keyLength = textLength + 1 + unitLength;
}

function sum(at: usize): usize {
  const guessAt = GUESSES + (guessHash() & (GUESS_COUNT - 1));
  const start = textBytes();
  const timeAt = lastTimeAt;
  const timeLength = lastTimeLength;
  // Until the field is read, assumes what the last such sum was; 0, the initial value, means monotonic, as most sums are.
  const guess = load<u8>(guessAt) == 0;
  const end = data(at, SUM, guess ? COUNTER_NAME : OTHER_NAME);
  if (points == 0 || isMonotonic == guess) return end;
  store<u8>(guessAt, u8(guess));
  cutTo(start);
  setLastTime(timeAt, timeLength);
  return data(at, SUM, guess ? OTHER_NAME : COUNTER_NAME);
}

function guessHash(): u32 {
  let hash: u32 = keyLength;
  for (let index: u32 = 0; index < keyLength; index++) hash = hash * 31 + load<u8>(NAME + index);
  return hash ^ (hash >> 16);
}

let isMonotonic: bool = false;

/** The message of a gauge, sum or histogram. */
function data(at: usize, kind: u32, nameKind: u32): usize {
  let seen: u32 = 0;
  let isCumulative = false;
  isMonotonic = false;
  points = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("dataPoints", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 1);
      at = dataPoints(at, kind, nameKind);
    } else if (isText("aggregationTemporality", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 2);
      isCumulative = isTwo(at);
      at = json.skip(at, 0);
    } else if (isText("isMonotonic", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 4);
      const byte = load<u8>(at);
      if (byte != 0x74 && byte != 0x66) fallBack(UNUSUAL);
      isMonotonic = byte == 0x74;
      at = json.skip(at, 0);
    } else at = json.skip(at, 0);
  }
  if (points != 0 && kind != GAUGE && !isCumulative) fallBack(UNUSUAL);
  return at + 1;
}

/** The digit 2, which is CUMULATIVE. */
function isTwo(at: usize): bool {
  const behind = load<u8>(at + 1);
  return load<u8>(at) == 0x32 && (behind == 0x2c || behind == 0x7d);
}

function dataPoints(at: usize, kind: u32, nameKind: u32): usize {
  at = json.open(at, json.OPEN_ARRAY);
  if (load<u8>(at) == json.CLOSE_ARRAY) return at + 1;
  const entry = find(nameKind, NAME, keyLength);
  const text = answerAt(entry);
  const length = answerLength(entry);
  // It cannot become a valid name.
  if (length == 0) fallBack(UNUSUAL);
  for (; load<u8>(at) != json.CLOSE_ARRAY; at = json.next(at, json.CLOSE_ARRAY)) {
    points++;
    at = kind == HISTOGRAM ? histogramPoint(at, text, length) : numberPoint(at, text, length);
  }
  return at + 1;
}
