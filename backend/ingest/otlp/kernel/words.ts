// The words that rows contain for the numbers of OTLP's enums: the level of a log, the kind and status of a span. Each takes sixteen bytes;
// the last byte is its length.

const LEVELS = words("trace", "debug", "info", "warn", "error", "fatal");
const KINDS = words("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER");
const STATUSES = words("UNSET", "OK", "ERROR");

/** The level of a severity number; a missing or unknown number is info. */
export function levelWord(severity: u32): usize {
  return LEVELS + 16 * (severity == 0 || severity > 24 ? 2 : (severity - 1) >> 2);
}

export function kindWord(kind: u32): usize {
  return KINDS + 16 * kind;
}

export function statusWord(code: u32): usize {
  return STATUSES + 16 * code;
}

export function wordLength(word: usize): u32 {
  return load<u8>(word, 15);
}
