// A document of metrics: resources, their scopes, their metrics. Invariants: a resource precedes its scopes, or the document is the
// host's; each of the loops can be entered behind one of its parts, so that the host may take a single metric and the kernel goes on.
import { refuse, SYNTAX, UNUSUAL } from "../../../common/kernel/bytes";
import {
  blanks,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
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
import { endResource } from "./host";
import { isTarget, noResource, readResource } from "./labels";
import { INPUT, MOST_LINE_BYTES } from "./memory";
import { metric } from "./metric";
import { isMetrics, isResource, isResourceMetrics, isScopeMetrics } from "./names";
import { flushAll, out, setOut, startLine, textBytes } from "./output";
import { lastTimeAt, lastTimeLength, setLastTime } from "./points";

/** Of the document, its resource, its scope: members that were there. */
let inDocument: u32 = 0;
let inResource: u32 = 0;
let inScope: u32 = 0;
let inputLength: u32 = 0;

/** The metric that is read: where it begins, and the length of the text before it. 0 outside of metrics. */
export let metricAt: usize = 0;
export let metricText: u32 = 0;
let timeBeforeAt: usize = 0;
let timeBeforeLength: u32 = 0;
/** Counts resources of the document. */
export let resourceNumber: u32 = 0;

export function readDocument(length: u32): void {
  inputLength = length;
  inDocument = 0;
  resourceNumber = 0;
  metricAt = 0;
  endDocument(document(open(blanks(INPUT), OPEN_OBJECT)));
}

/** Goes on behind a metric. */
export function readOn(at: usize): void {
  at = scope(next(metrics(next(at, CLOSE_ARRAY)), CLOSE_OBJECT));
  at = resource(next(scopes(next(at, CLOSE_ARRAY)), CLOSE_OBJECT));
  endDocument(document(next(resources(next(at, CLOSE_ARRAY)), CLOSE_OBJECT)));
}

/** Behind the metric that is read, of which nothing happened; what the kernel does not take from here on, it does not take at all. */
export function skipMetric(): usize {
  const at = metricAt;
  metricAt = 0;
  setLastTime(timeBeforeAt, timeBeforeLength);
  return skip(at, 0);
}

function endDocument(at: usize): void {
  if (blanks(at) != INPUT + inputLength) refuse(SYNTAX);
  flushAll();
}

/** From a member or the end; returns behind the end, as all of these. */
function document(at: usize): usize {
  for (; load<u8>(at) != CLOSE_OBJECT; at = next(at, CLOSE_OBJECT)) {
    at = name(at);
    if (isResourceMetrics(nameAt, nameLength)) {
      inDocument = once(inDocument, 1);
      at = resources(open(at, OPEN_ARRAY));
    } else at = skip(at, 0);
  }
  return at + 1;
}

function resources(at: usize): usize {
  for (; load<u8>(at) != CLOSE_ARRAY; at = next(at, CLOSE_ARRAY)) {
    resourceNumber++;
    inResource = 0;
    setLastTime(0, 0);
    noResource();
    at = resource(open(at, OPEN_OBJECT));
  }
  return at + 1;
}

function resource(at: usize): usize {
  for (; load<u8>(at) != CLOSE_OBJECT; at = next(at, CLOSE_OBJECT)) {
    at = name(at);
    if (isResource(nameAt, nameLength)) {
      if (inResource & 2) refuse(UNUSUAL);
      inResource = once(inResource, 1);
      at = readResource(at);
    } else if (isScopeMetrics(nameAt, nameLength)) {
      inResource = once(inResource, 2);
      at = scopes(open(at, OPEN_ARRAY));
    } else at = skip(at, 0);
  }
  if (isTarget) {
    startLine();
    setOut(out + endResource(lastTimeAt, lastTimeLength, out, MOST_LINE_BYTES));
  }
  return at + 1;
}

function scopes(at: usize): usize {
  for (; load<u8>(at) != CLOSE_ARRAY; at = next(at, CLOSE_ARRAY)) {
    inScope = 0;
    at = scope(open(at, OPEN_OBJECT));
  }
  return at + 1;
}

function scope(at: usize): usize {
  for (; load<u8>(at) != CLOSE_OBJECT; at = next(at, CLOSE_OBJECT)) {
    at = name(at);
    if (isMetrics(nameAt, nameLength)) {
      inScope = once(inScope, 1);
      at = metrics(open(at, OPEN_ARRAY));
    } else at = skip(at, 0);
  }
  return at + 1;
}

function metrics(at: usize): usize {
  for (; load<u8>(at) != CLOSE_ARRAY; at = next(at, CLOSE_ARRAY)) {
    metricAt = at;
    metricText = textBytes();
    timeBeforeAt = lastTimeAt;
    timeBeforeLength = lastTimeLength;
    at = metric(at);
    metricAt = 0;
  }
  return at + 1;
}
