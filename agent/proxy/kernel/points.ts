// Converts points of gauges and sums to one line each. Invariant: the host converts a metric if a point's attributes follow members that
// come after them in the line.
import { fallBack, UNUSUAL } from "../../../common/kernel/bytes";
import * as json from "../../../common/kernel/json";
import { writeHead, writeLabels } from "./labels";
import { out, put, putExactly, putText, setOut, startLine } from "./output";
import * as values from "./values";

const SPACE: u8 = 0x20;
const NEWLINE: u8 = 0x0a;
const OPEN: u8 = 0x7b;
const CLOSE: u8 = 0x7d;

/** Digits of the time of the resource's last point that was written here; 0 if there is none. */
export let lastTimeAt: usize = 0;
export let lastTimeLength: u32 = 0;

export function setLastTime(at: usize, length: u32): void {
  lastTimeAt = at;
  lastTimeLength = length;
}

export function numberPoint(at: usize, text: usize, length: u32): usize {
  startLine();
  values.startPoint();
  const start = out;
  putText(text, length);
  const afterName = out;
  let seen: u32 = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("timeUnixNano", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 2);
      at = values.readTime(at);
    } else if (isText("asDouble", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 4);
      at = values.readDouble(at);
    } else if (isText("asInt", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 4);
      at = values.readInteger(at);
    } else if (isText("attributes", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 1);
      put(OPEN);
      at = writeLabels(at, false);
    } else if (isText("flags", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 8);
      at = values.readFlags(at);
    } else at = json.skip(at, 0);
  }
  at++;
  if (values.isEnded) {
    setOut(start);
    return at;
  }
  if (values.timeLength == 0 || values.valueLength == 0) fallBack(UNUSUAL);
  if ((seen & 1) == 0) {
    put(OPEN);
    writeHead(false);
  }
  if (out == afterName + 1) setOut(afterName);
  else put(CLOSE);
  endLine();
  setLastTime(values.timeAt, values.timeLength);
  return at;
}

/** Writes the value that was read last, and the point's time. */
export function endLine(): void {
  put(SPACE);
  putExactly(values.valueAt, values.valueLength);
  endOfLine();
}

export function endOfLine(): void {
  put(SPACE);
  putText(values.timeAt, values.timeLength);
  put(NEWLINE);
}
