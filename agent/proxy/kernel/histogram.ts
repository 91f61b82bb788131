// Converts points of histograms with bounds: a line per bucket, one for +Inf, sum and count. Invariants: the host converts points whose
// counts and bounds do not match; running sums are exact in a double.
import { fallBack, TOO_LARGE, UNUSUAL } from "../../../common/kernel/bytes";
import * as json from "../../../common/kernel/json";
import { answerAt, BOUNDS, find, keyLength, startsWithKey } from "./dictionary";
import { writeHead, writeLabels } from "./labels";
import { INPUT, MAX_BUCKETS, POINT_LABELS, SUMS } from "./memory";
import { out, put, putExactly, putNatural, putText, setOut, startLine, writeTo } from "./output";
import { endLine, endOfLine, setLastTime } from "./points";
import * as values from "./values";

const SPACE: u8 = 0x20;
const OPEN: u8 = 0x7b;
const CLOSE: u8 = 0x7d;
const MAX_SAFE: u64 = 9007199254740991;
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
  values.startPoint();
  sums = 0;
  hasBounds = false;
  countLength = 0;
  sumLength = 0;
  const was = writeTo(POINT_LABELS);
  let seen: u32 = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    member = 0;
    if (isText("attributes", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 1);
      at = writeLabels(at, true);
    } else if (isText("timeUnixNano", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 2);
      at = values.readTime(at);
    } else at = histogramMember(at, seen);
    seen |= member;
  }
  if ((seen & 1) == 0) writeHead(true);
  const labelsLength = <u32>(out - POINT_LABELS);
  setOut(was);
  if (values.isEnded) return at + 1;
  if (values.timeLength == 0) fallBack(UNUSUAL);
  writeHistogram(text, length, labelsLength);
  setLastTime(values.timeAt, values.timeLength);
  return at + 1;
}

/** The bit of the member that `histogramMember` read. */
let member: u32 = 0;

function histogramMember(at: usize, seen: u32): usize {
  if (isText("bucketCounts", json.nameAt, json.nameLength)) {
    member = 4;
    at = readCounts(at);
  } else if (isText("explicitBounds", json.nameAt, json.nameLength)) {
    member = 8;
    at = readBounds(at);
  } else if (isText("count", json.nameAt, json.nameLength)) {
    member = 16;
    at = values.readInteger(at);
    countAt = values.valueAt;
    countLength = values.valueLength;
  } else if (isText("sum", json.nameAt, json.nameLength)) {
    member = 32;
    at = values.readDouble(at);
    sumAt = values.valueAt;
    sumLength = values.valueLength;
  } else if (isText("flags", json.nameAt, json.nameLength)) {
    member = 64;
    at = values.readFlags(at);
  } else at = json.skip(at, 0);
  if (seen & member) fallBack(UNUSUAL);
  return at;
}

function readCounts(at: usize): usize {
  let sum: u64 = 0;
  for (at = json.open(at, json.OPEN_ARRAY); load<u8>(at) != json.CLOSE_ARRAY; at = json.next(at, json.CLOSE_ARRAY)) {
    at = values.readNatural(at);
    sum += values.natural;
    if (sums == MAX_BUCKETS || sum > MAX_SAFE) fallBack(TOO_LARGE);
    store<u64>(SUMS + 8 * sums, sum);
    sums++;
  }
  return at + 1;
}

function readBounds(at: usize): usize {
  hasBounds = true;
  if (bounds != 0 && startsWithKey(bounds, at, inputEnd)) return at + keyLength(bounds);
  const end = json.skip(at, 0);
  bounds = find(BOUNDS, at, <u32>(end - at));
  return end;
}

function writeHistogram(text: usize, length: u32, labelsLength: u32): void {
  const count = hasBounds ? load<u32>(answerAt(bounds)) : 0;
  if (sums != 0 && sums != count + 1) fallBack(UNUSUAL);
  let bound = hasBounds ? answerAt(bounds) + 4 : 0;
  // Values below a first bound that is negative, `le="-1`: the host adds the bound below them.
  if (sums > 1 && load<u64>(SUMS) != 0 && load<u8>(bound, 5) == 0x2d) fallBack(UNUSUAL);
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
  put(json.COMMA);
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
