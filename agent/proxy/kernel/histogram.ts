// Points of histograms with bounds: a line for each bucket, one for +Inf, sum and count. Invariants: counts and bounds that do not match are
// the host's; running sums stay what a double holds.
import { refuse, TOO_LARGE, UNUSUAL } from "../../../common/kernel/bytes";
import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  name,
  nameAt,
  nameLength,
  next,
  once,
  open,
  OPEN_ARRAY,
  OPEN_OBJECT,
  skip,
} from "../../../common/kernel/json";
import { answerAt, BOUNDS, find, keyLength, startsWithKey } from "./dictionary";
import { writeHead, writeLabels } from "./labels";
import { INPUT, MOST_BUCKETS, POINT_LABELS, SUMS } from "./memory";
import { isAttributes, isBucketCounts, isCount, isExplicitBounds, isFlags, isSum, isTimeUnixNano } from "./names";
import { out, put, putExactly, putNatural, putText, setOut, startLine, writeTo } from "./output";
import { endLine, endOfLine, setLastTime } from "./points";
import {
  isEnded,
  natural,
  readDouble,
  readFlags,
  readInteger,
  readNatural,
  readTime,
  startPoint,
  timeAt,
  timeLength,
  valueAt,
  valueLength,
} from "./values";

const SPACE: u8 = 0x20;
const OPEN: u8 = 0x7b;
const CLOSE: u8 = 0x7d;
const MOST_SAFE: u64 = 9007199254740991;
const ZERO: u8 = 0x30;

let inputEnd: usize = 0;
let sums: u32 = 0;
/** The bounds that were read last, and whether the point has any. */
let bounds: usize = 0;
let hasBounds: bool = false;
let countAt: usize = 0;
let countLength: u32 = 0;
let sumAt: usize = 0;
let sumLength: u32 = 0;

export function startHistograms(length: u32): void {
  inputEnd = INPUT + length;
  bounds = 0;
}

export function histogramPoint(at: usize, text: usize, length: u32): usize {
  startPoint();
  sums = 0;
  hasBounds = false;
  countLength = 0;
  sumLength = 0;
  const was = writeTo(POINT_LABELS);
  let seen: u32 = 0;
  for (at = open(at, OPEN_OBJECT); load<u8>(at) != CLOSE_OBJECT; at = next(at, CLOSE_OBJECT)) {
    at = name(at);
    member = 0;
    if (isAttributes(nameAt, nameLength)) {
      seen = once(seen, 1);
      at = writeLabels(at, true);
    } else if (isTimeUnixNano(nameAt, nameLength)) {
      seen = once(seen, 2);
      at = readTime(at);
    } else at = histogramMember(at, seen);
    seen |= member;
  }
  if ((seen & 1) == 0) writeHead(true);
  const labelsLength = <u32>(out - POINT_LABELS);
  setOut(was);
  if (isEnded) return at + 1;
  if (timeLength == 0) refuse(UNUSUAL);
  writeHistogram(text, length, labelsLength);
  setLastTime(timeAt, timeLength);
  return at + 1;
}

/** The bit of the member that `histogramMember` read. */
let member: u32 = 0;

function histogramMember(at: usize, seen: u32): usize {
  if (isBucketCounts(nameAt, nameLength)) {
    member = 4;
    at = readCounts(at);
  } else if (isExplicitBounds(nameAt, nameLength)) {
    member = 8;
    at = readBounds(at);
  } else if (isCount(nameAt, nameLength)) {
    member = 16;
    at = readInteger(at);
    countAt = valueAt;
    countLength = valueLength;
  } else if (isSum(nameAt, nameLength)) {
    member = 32;
    at = readDouble(at);
    sumAt = valueAt;
    sumLength = valueLength;
  } else if (isFlags(nameAt, nameLength)) {
    member = 64;
    at = readFlags(at);
  } else at = skip(at, 0);
  if (seen & member) refuse(UNUSUAL);
  return at;
}

function readCounts(at: usize): usize {
  let sum: u64 = 0;
  for (at = open(at, OPEN_ARRAY); load<u8>(at) != CLOSE_ARRAY; at = next(at, CLOSE_ARRAY)) {
    at = readNatural(at);
    sum += natural;
    if (sums == MOST_BUCKETS || sum > MOST_SAFE) refuse(TOO_LARGE);
    store<u64>(SUMS + 8 * sums, sum);
    sums++;
  }
  return at + 1;
}

function readBounds(at: usize): usize {
  hasBounds = true;
  if (bounds != 0 && startsWithKey(bounds, at, inputEnd)) return at + keyLength(bounds);
  const end = skip(at, 0);
  bounds = find(BOUNDS, at, <u32>(end - at));
  return end;
}

function writeHistogram(text: usize, length: u32, labelsLength: u32): void {
  const count = hasBounds ? load<u32>(answerAt(bounds)) : 0;
  if (sums != 0 && sums != count + 1) refuse(UNUSUAL);
  let bound = hasBounds ? answerAt(bounds) + 4 : 0;
  for (let index: u32 = 0; index + 1 < sums; index++) {
    const size: u32 = load<u8>(bound);
    startBucket(text, length, labelsLength);
    putText(bound + 1, size);
    putNatural(load<u64>(SUMS + 8 * index));
    endOfLine();
    bound += 1 + size;
  }
  startBucket(text, length, labelsLength);
  // `le="+Inf"} `
  store<u64>(out, 0x666e492b223d656c);
  store<u32>(out + 8, 0x00207d22);
  setOut(out + 11);
  putCount();
  endOfLine();
  startLine();
  if (sumLength != 0) {
    startOther(text, length, labelsLength, 0x6d75735f, 4);
    put(SPACE);
    putExactly(sumAt, sumLength);
    endOfLine();
  }
  startLine();
  startOther(text, length, labelsLength, 0x746e756f635f, 6);
  put(SPACE);
  putCount();
  endOfLine();
}

/** `name_bucket{…,` */
function startBucket(text: usize, length: u32, labelsLength: u32): void {
  startLine();
  putText(text, length);
  // `_bucket{`
  store<u64>(out, 0x7b74656b6375625f);
  setOut(out + 8);
  if (labelsLength == 0) return;
  putExactly(POINT_LABELS, labelsLength);
  put(COMMA);
}

/** `name_sum{…}` or `name_count{…}` */
function startOther(text: usize, length: u32, labelsLength: u32, suffix: u64, suffixLength: u32): void {
  putText(text, length);
  store<u64>(out, suffix);
  setOut(out + suffixLength);
  if (labelsLength == 0) return;
  put(OPEN);
  putExactly(POINT_LABELS, labelsLength);
  put(CLOSE);
}

function putCount(): void {
  if (countLength == 0) put(ZERO);
  else putExactly(countAt, countLength);
}
