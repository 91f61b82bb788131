// The words that rows contain for the numbers of OTLP's enums: the level of a log, the kind and status of a span. Each takes sixteen bytes;
// the last byte is its length.

/** trace, debug, info, warn, error, fatal */
const LEVELS = memory.data<u8>([
  0x74, 0x72, 0x61, 0x63, 0x65, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0x64, 0x65, 0x62, 0x75, 0x67, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0x69, 0x6e,
  0x66, 0x6f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0x77, 0x61, 0x72, 0x6e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0x65, 0x72, 0x72, 0x6f, 0x72,
  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0x66, 0x61, 0x74, 0x61, 0x6c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5,
]);
/** UNSPECIFIED, INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER */
const KINDS = memory.data<u8>([
  0x55, 0x4e, 0x53, 0x50, 0x45, 0x43, 0x49, 0x46, 0x49, 0x45, 0x44, 0, 0, 0, 0, 11, 0x49, 0x4e, 0x54, 0x45, 0x52, 0x4e, 0x41, 0x4c, 0, 0, 0,
  0, 0, 0, 0, 8, 0x53, 0x45, 0x52, 0x56, 0x45, 0x52, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0x43, 0x4c, 0x49, 0x45, 0x4e, 0x54, 0, 0, 0, 0, 0, 0, 0,
  0, 0, 6, 0x50, 0x52, 0x4f, 0x44, 0x55, 0x43, 0x45, 0x52, 0, 0, 0, 0, 0, 0, 0, 8, 0x43, 0x4f, 0x4e, 0x53, 0x55, 0x4d, 0x45, 0x52, 0, 0, 0,
  0, 0, 0, 0, 8,
]);
/** UNSET, OK, ERROR */
const STATUSES = memory.data<u8>([
  0x55, 0x4e, 0x53, 0x45, 0x54, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0x4f, 0x4b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x45, 0x52, 0x52,
  0x4f, 0x52, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5,
]);

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
