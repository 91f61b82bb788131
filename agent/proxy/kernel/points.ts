// Points of gauges and sums: a line each. Invariant: attributes stand before what comes behind them in the line, or the metric is the host's.
import { refuse, UNUSUAL } from "../../../common/kernel/bytes";
import { CLOSE_OBJECT, name, nameAt, nameLength, next, once, open, OPEN_OBJECT, skip } from "../../../common/kernel/json";
import { writeHead, writeLabels } from "./labels";
import { isAsDouble, isAsInt, isAttributes, isFlags, isTimeUnixNano } from "./names";
import { out, put, putExactly, putText, setOut, startLine } from "./output";
import { isEnded, readDouble, readFlags, readInteger, readTime, startPoint, timeAt, timeLength, valueAt, valueLength } from "./values";

const SPACE: u8 = 0x20;
const NEWLINE: u8 = 0x0a;
const OPEN: u8 = 0x7b;
const CLOSE: u8 = 0x7d;

/** The digits of the time of the resource's last point written here; 0 if there is none. */
export let lastTimeAt: usize = 0;
export let lastTimeLength: u32 = 0;

export function setLastTime(at: usize, length: u32): void {
  lastTimeAt = at;
  lastTimeLength = length;
}

export function numberPoint(at: usize, text: usize, length: u32): usize {
  startLine();
  startPoint();
  const start = out;
  putText(text, length);
  const afterName = out;
  let seen: u32 = 0;
  for (at = open(at, OPEN_OBJECT); load<u8>(at) != CLOSE_OBJECT; at = next(at, CLOSE_OBJECT)) {
    at = name(at);
    if (isTimeUnixNano(nameAt, nameLength)) {
      seen = once(seen, 2);
      at = readTime(at);
    } else if (isAsDouble(nameAt, nameLength)) {
      seen = once(seen, 4);
      at = readDouble(at);
    } else if (isAsInt(nameAt, nameLength)) {
      seen = once(seen, 4);
      at = readInteger(at);
    } else if (isAttributes(nameAt, nameLength)) {
      seen = once(seen, 1);
      put(OPEN);
      at = writeLabels(at, false);
    } else if (isFlags(nameAt, nameLength)) {
      seen = once(seen, 8);
      at = readFlags(at);
    } else at = skip(at, 0);
  }
  at++;
  if (isEnded) {
    setOut(start);
    return at;
  }
  if (timeLength == 0 || valueLength == 0) refuse(UNUSUAL);
  if ((seen & 1) == 0) {
    put(OPEN);
    writeHead(false);
  }
  if (out == afterName + 1) setOut(afterName);
  else put(CLOSE);
  endLine();
  setLastTime(timeAt, timeLength);
  return at;
}

/** The value that was read last, and the point's time. */
export function endLine(): void {
  put(SPACE);
  putExactly(valueAt, valueLength);
  endOfLine();
}

export function endOfLine(): void {
  put(SPACE);
  putText(timeAt, timeLength);
  put(NEWLINE);
}
