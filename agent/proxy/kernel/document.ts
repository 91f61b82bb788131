// Parses an OTLP/JSON metrics document: resourceMetrics, scopeMetrics, metrics. Each function gets the address of the first member or
// element, or of the closing bracket, and returns the address after that bracket. Invariants: if the resource follows its scopes, the
// kernel falls back and the host (TypeScript) converts the whole document; every loop can also be entered after one of its elements, so that
// `readOn` continues after a metric that the host converted.
import { fallBack, SYNTAX, UNUSUAL } from "../../../common/kernel/bytes";
import * as json from "../../../common/kernel/json";
import { endResource } from "./host";
import { isTarget, noResource, readResource } from "./labels";
import { INPUT, MAX_LINE_BYTES } from "./memory";
import { metric } from "./metric";
import { flushAll, out, setOut, startLine, textBytes } from "./output";
import { lastTimeAt, lastTimeLength, setLastTime } from "./points";

/** One bit per member seen so far in the current document, resource and scope: a duplicate makes the kernel fall back. */
let inDocument: u32 = 0;
let inResource: u32 = 0;
let inScope: u32 = 0;
let inputLength: u32 = 0;

/** Address of the current metric, 0 between metrics; and the number of text bytes before it, to which the host truncates the output. */
export let metricAt: usize = 0;
export let metricText: u32 = 0;
/** Time of the last point before the current metric, which `skipMetric` restores. */
let timeBeforeAt: usize = 0;
let timeBeforeLength: u32 = 0;
/** Number of resources read so far, so that the host can identify the current one. */
export let resourceNumber: u32 = 0;

export function readDocument(length: u32): void {
  inputLength = length;
  inDocument = 0;
  resourceNumber = 0;
  metricAt = 0;
  endDocument(document(json.open(json.blanks(INPUT), json.OPEN_OBJECT)));
}

/** Continues after the metric that ends at `at`: with the rest of its scope, its resource and the document. */
export function readOn(at: usize): void {
  at = scope(json.next(metrics(json.next(at, json.CLOSE_ARRAY)), json.CLOSE_OBJECT));
  at = resource(json.next(scopes(json.next(at, json.CLOSE_ARRAY)), json.CLOSE_OBJECT));
  endDocument(document(json.next(resources(json.next(at, json.CLOSE_ARRAY)), json.CLOSE_OBJECT)));
}

/**
 * Leaves the current metric to the host: undoes its time and returns the address after it. If the kernel falls back while it skips the metric,
 * `metricAt` is 0 and the host converts the whole document.
 */
export function skipMetric(): usize {
  const at = metricAt;
  metricAt = 0;
  setLastTime(timeBeforeAt, timeBeforeLength);
  return json.skip(at, 0);
}

function endDocument(at: usize): void {
  if (json.blanks(at) != INPUT + inputLength) fallBack(SYNTAX);
  flushAll();
}

function document(at: usize): usize {
  for (; load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("resourceMetrics", json.nameAt, json.nameLength)) {
      inDocument = json.once(inDocument, 1);
      at = resources(json.open(at, json.OPEN_ARRAY));
    } else at = json.skip(at, 0);
  }
  return at + 1;
}

function resources(at: usize): usize {
  for (; load<u8>(at) != json.CLOSE_ARRAY; at = json.next(at, json.CLOSE_ARRAY)) {
    resourceNumber++;
    inResource = 0;
    setLastTime(0, 0);
    noResource();
    at = resource(json.open(at, json.OPEN_OBJECT));
  }
  return at + 1;
}

function resource(at: usize): usize {
  for (; load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("resource", json.nameAt, json.nameLength)) {
      if (inResource & 2) fallBack(UNUSUAL);
      inResource = json.once(inResource, 1);
      at = readResource(at);
    } else if (isText("scopeMetrics", json.nameAt, json.nameLength)) {
      inResource = json.once(inResource, 2);
      at = scopes(json.open(at, json.OPEN_ARRAY));
    } else at = json.skip(at, 0);
  }
  if (isTarget) {
    startLine();
    setOut(out + endResource(lastTimeAt, lastTimeLength, out, MAX_LINE_BYTES));
  }
  return at + 1;
}

function scopes(at: usize): usize {
  for (; load<u8>(at) != json.CLOSE_ARRAY; at = json.next(at, json.CLOSE_ARRAY)) {
    inScope = 0;
    at = scope(json.open(at, json.OPEN_OBJECT));
  }
  return at + 1;
}

function scope(at: usize): usize {
  for (; load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("metrics", json.nameAt, json.nameLength)) {
      inScope = json.once(inScope, 1);
      at = metrics(json.open(at, json.OPEN_ARRAY));
    } else at = json.skip(at, 0);
  }
  return at + 1;
}

function metrics(at: usize): usize {
  for (; load<u8>(at) != json.CLOSE_ARRAY; at = json.next(at, json.CLOSE_ARRAY)) {
    metricAt = at;
    metricText = textBytes();
    timeBeforeAt = lastTimeAt;
    timeBeforeLength = lastTimeLength;
    at = metric(at);
    metricAt = 0;
  }
  return at + 1;
}
