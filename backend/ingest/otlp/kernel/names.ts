// Recognises the field names of OTLP by length and eight bytes at a time. A word of fewer than eight bytes is shifted up, so that what
// follows the name is ignored. The functions were written once by hand; the differential test checks each of them.
export function isBody(at: usize, length: u32): bool {
  return length == 4 && load<u64>(at) << 32 == 0x79646f6200000000;
}
// flags
export function isFlags(at: usize, length: u32): bool {
  return length == 5 && load<u64>(at) << 24 == 0x7367616c66000000;
}
// spanId
export function isSpanId(at: usize, length: u32): bool {
  return length == 6 && load<u64>(at) << 16 == 0x64496e6170730000;
}
// traceId
export function isTraceId(at: usize, length: u32): bool {
  return length == 7 && load<u64>(at) << 8 == 0x6449656361727400;
}
// eventName
export function isEventName(at: usize, length: u32): bool {
  return length == 9 && load<u64>(at) == 0x6d614e746e657665 && load<u64>(at + 8) << 56 == 0x6500000000000000;
}
// attributes
export function isAttributes(at: usize, length: u32): bool {
  return length == 10 && load<u64>(at) == 0x7475626972747461 && load<u64>(at + 8) << 48 == 0x7365000000000000;
}
// timeUnixNano
export function isTimeUnixNano(at: usize, length: u32): bool {
  return length == 12 && load<u64>(at) == 0x78696e55656d6974 && load<u64>(at + 8) << 32 == 0x6f6e614e00000000;
}
// severityText
export function isSeverityText(at: usize, length: u32): bool {
  return length == 12 && load<u64>(at) == 0x7974697265766573 && load<u64>(at + 8) << 32 == 0x7478655400000000;
}
// severityNumber
export function isSeverityNumber(at: usize, length: u32): bool {
  return length == 14 && load<u64>(at) == 0x7974697265766573 && load<u64>(at + 8) << 16 == 0x7265626d754e0000;
}
// observedTimeUnixNano
export function isObservedTimeUnixNano(at: usize, length: u32): bool {
  return (
    length == 20 &&
    load<u64>(at) == 0x646576726573626f &&
    load<u64>(at + 8) == 0x78696e55656d6954 &&
    load<u64>(at + 16) << 32 == 0x6f6e614e00000000
  );
}
// droppedAttributesCount
export function isDroppedAttributesCount(at: usize, length: u32): bool {
  return (
    length == 22 &&
    load<u64>(at) == 0x41646570706f7264 &&
    load<u64>(at + 8) == 0x6574756269727474 &&
    load<u64>(at + 16) << 16 == 0x746e756f43730000
  );
}
// stringValue
export function isStringValue(at: usize, length: u32): bool {
  return length == 11 && load<u64>(at) == 0x6156676e69727473 && load<u64>(at + 8) << 40 == 0x65756c0000000000;
}
// boolValue
export function isBoolValue(at: usize, length: u32): bool {
  return length == 9 && load<u64>(at) == 0x756c61566c6f6f62 && load<u64>(at + 8) << 56 == 0x6500000000000000;
}
// intValue
export function isIntValue(at: usize, length: u32): bool {
  return length == 8 && load<u64>(at) == 0x65756c6156746e69;
}
// doubleValue
export function isDoubleValue(at: usize, length: u32): bool {
  return length == 11 && load<u64>(at) == 0x6156656c62756f64 && load<u64>(at + 8) << 40 == 0x65756c0000000000;
}
// arrayValue
export function isArrayValue(at: usize, length: u32): bool {
  return length == 10 && load<u64>(at) == 0x6c61567961727261 && load<u64>(at + 8) << 48 == 0x6575000000000000;
}
// kvlistValue
export function isKvlistValue(at: usize, length: u32): bool {
  return length == 11 && load<u64>(at) == 0x61567473696c766b && load<u64>(at + 8) << 40 == 0x65756c0000000000;
}
// bytesValue
export function isBytesValue(at: usize, length: u32): bool {
  return length == 10 && load<u64>(at) == 0x6c61567365747962 && load<u64>(at + 8) << 48 == 0x6575000000000000;
}
// values
export function isValues(at: usize, length: u32): bool {
  return length == 6 && load<u64>(at) << 16 == 0x7365756c61760000;
}
// key
export function isKey(at: usize, length: u32): bool {
  return length == 3 && load<u64>(at) << 40 == 0x79656b0000000000;
}
// value
export function isValue(at: usize, length: u32): bool {
  return length == 5 && load<u64>(at) << 24 == 0x65756c6176000000;
}
// resource
export function isResource(at: usize, length: u32): bool {
  return length == 8 && load<u64>(at) == 0x656372756f736572;
}
// scope
export function isScope(at: usize, length: u32): bool {
  return length == 5 && load<u64>(at) << 24 == 0x65706f6373000000;
}
// name
export function isName(at: usize, length: u32): bool {
  return length == 4 && load<u64>(at) << 32 == 0x656d616e00000000;
}
// version
export function isVersion(at: usize, length: u32): bool {
  return length == 7 && load<u64>(at) << 8 == 0x6e6f697372657600;
}
// resourceLogs
export function isResourceLogs(at: usize, length: u32): bool {
  return length == 12 && load<u64>(at) == 0x656372756f736572 && load<u64>(at + 8) << 32 == 0x73676f4c00000000;
}
// scopeLogs
export function isScopeLogs(at: usize, length: u32): bool {
  return length == 9 && load<u64>(at) == 0x676f4c65706f6373 && load<u64>(at + 8) << 56 == 0x7300000000000000;
}
// logRecords
export function isLogRecords(at: usize, length: u32): bool {
  return length == 10 && load<u64>(at) == 0x726f636552676f6c && load<u64>(at + 8) << 48 == 0x7364000000000000;
}
// resourceSpans
export function isResourceSpans(at: usize, length: u32): bool {
  return length == 13 && load<u64>(at) == 0x656372756f736572 && load<u64>(at + 8) << 24 == 0x736e617053000000;
}
// scopeSpans
export function isScopeSpans(at: usize, length: u32): bool {
  return length == 10 && load<u64>(at) == 0x61705365706f6373 && load<u64>(at + 8) << 48 == 0x736e000000000000;
}
// spans
export function isSpans(at: usize, length: u32): bool {
  return length == 5 && load<u64>(at) << 24 == 0x736e617073000000;
}
// parentSpanId
export function isParentSpanId(at: usize, length: u32): bool {
  return length == 12 && load<u64>(at) == 0x7053746e65726170 && load<u64>(at + 8) << 32 == 0x64496e6100000000;
}
// kind
export function isKind(at: usize, length: u32): bool {
  return length == 4 && load<u64>(at) << 32 == 0x646e696b00000000;
}
// status
export function isStatus(at: usize, length: u32): bool {
  return length == 6 && load<u64>(at) << 16 == 0x7375746174730000;
}
// code
export function isCode(at: usize, length: u32): bool {
  return length == 4 && load<u64>(at) << 32 == 0x65646f6300000000;
}
// message
export function isMessage(at: usize, length: u32): bool {
  return length == 7 && load<u64>(at) << 8 == 0x6567617373656d00;
}
// traceState
export function isTraceState(at: usize, length: u32): bool {
  return length == 10 && load<u64>(at) == 0x6174536563617274 && load<u64>(at + 8) << 48 == 0x6574000000000000;
}
// startTimeUnixNano
export function isStartTimeUnixNano(at: usize, length: u32): bool {
  return (
    length == 17 &&
    load<u64>(at) == 0x6d69547472617473 &&
    load<u64>(at + 8) == 0x6e614e78696e5565 &&
    load<u64>(at + 16) << 56 == 0x6f00000000000000
  );
}
// endTimeUnixNano
export function isEndTimeUnixNano(at: usize, length: u32): bool {
  return length == 15 && load<u64>(at) == 0x55656d6954646e65 && load<u64>(at + 8) << 8 == 0x6f6e614e78696e00;
}
// events
export function isEvents(at: usize, length: u32): bool {
  return length == 6 && load<u64>(at) << 16 == 0x73746e6576650000;
}
// links
export function isLinks(at: usize, length: u32): bool {
  return length == 5 && load<u64>(at) << 24 == 0x736b6e696c000000;
}
// droppedEventsCount
export function isDroppedEventsCount(at: usize, length: u32): bool {
  return (
    length == 18 &&
    load<u64>(at) == 0x45646570706f7264 &&
    load<u64>(at + 8) == 0x756f4373746e6576 &&
    load<u64>(at + 16) << 48 == 0x746e000000000000
  );
}
// droppedLinksCount
export function isDroppedLinksCount(at: usize, length: u32): bool {
  return (
    length == 17 &&
    load<u64>(at) == 0x4c646570706f7264 &&
    load<u64>(at + 8) == 0x6e756f43736b6e69 &&
    load<u64>(at + 16) << 56 == 0x7400000000000000
  );
}
// org_id
export function isOrgId(at: usize, length: u32): bool {
  return length == 6 && load<u64>(at) << 16 == 0x64695f67726f0000;
}
// host_id
export function isHostId(at: usize, length: u32): bool {
  return length == 7 && load<u64>(at) << 8 == 0x64695f74736f6800;
}
// instance
export function isInstance(at: usize, length: u32): bool {
  return length == 8 && load<u64>(at) == 0x65636e6174736e69;
}
// node
export function isNode(at: usize, length: u32): bool {
  return length == 4 && load<u64>(at) << 32 == 0x65646f6e00000000;
}
// service.name
export function isServiceName(at: usize, length: u32): bool {
  return length == 12 && load<u64>(at) == 0x2e65636976726573 && load<u64>(at + 8) << 32 == 0x656d616e00000000;
}
