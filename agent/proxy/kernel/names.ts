// The names of OTLP's metrics that the kernel knows, distinguished by length and eight bytes at a time. A word shorter than eight bytes is
// shifted up, so that what follows the name does not count. Written by hand; the differential test covers each. resourceMetrics
export function isResourceMetrics(at: usize, length: u32): bool {
  return length == 15 && load<u64>(at) == 0x656372756f736572 && load<u64>(at + 8) << 8 == 0x7363697274654d00;
}
// resource
export function isResource(at: usize, length: u32): bool {
  return length == 8 && load<u64>(at) == 0x656372756f736572;
}
// scopeMetrics
export function isScopeMetrics(at: usize, length: u32): bool {
  return length == 12 && load<u64>(at) == 0x74654d65706f6373 && load<u64>(at + 8) << 32 == 0x7363697200000000;
}
// metrics
export function isMetrics(at: usize, length: u32): bool {
  return length == 7 && load<u64>(at) << 8 == 0x7363697274656d00;
}
// name
export function isName(at: usize, length: u32): bool {
  return length == 4 && load<u64>(at) << 32 == 0x656d616e00000000;
}
// unit
export function isUnit(at: usize, length: u32): bool {
  return length == 4 && load<u64>(at) << 32 == 0x74696e7500000000;
}
// sum
export function isSum(at: usize, length: u32): bool {
  return length == 3 && load<u64>(at) << 40 == 0x6d75730000000000;
}
// gauge
export function isGauge(at: usize, length: u32): bool {
  return length == 5 && load<u64>(at) << 24 == 0x6567756167000000;
}
// histogram
export function isHistogram(at: usize, length: u32): bool {
  return length == 9 && load<u64>(at) == 0x6172676f74736968 && load<u64>(at + 8) << 56 == 0x6d00000000000000;
}
// exponentialHistogram
export function isExponentialHistogram(at: usize, length: u32): bool {
  return (
    length == 20 &&
    load<u64>(at) == 0x746e656e6f707865 &&
    load<u64>(at + 8) == 0x6f747369486c6169 &&
    load<u64>(at + 16) << 32 == 0x6d61726700000000
  );
}
// summary
export function isSummary(at: usize, length: u32): bool {
  return length == 7 && load<u64>(at) << 8 == 0x7972616d6d757300;
}
// dataPoints
export function isDataPoints(at: usize, length: u32): bool {
  return length == 10 && load<u64>(at) == 0x6e696f5061746164 && load<u64>(at + 8) << 48 == 0x7374000000000000;
}
// aggregationTemporality
export function isAggregationTemporality(at: usize, length: u32): bool {
  return (
    length == 22 &&
    load<u64>(at) == 0x7461676572676761 &&
    load<u64>(at + 8) == 0x6f706d65546e6f69 &&
    load<u64>(at + 16) << 16 == 0x7974696c61720000
  );
}
// isMonotonic
export function isIsMonotonic(at: usize, length: u32): bool {
  return length == 11 && load<u64>(at) == 0x6f746f6e6f4d7369 && load<u64>(at + 8) << 40 == 0x63696e0000000000;
}
// attributes
export function isAttributes(at: usize, length: u32): bool {
  return length == 10 && load<u64>(at) == 0x7475626972747461 && load<u64>(at + 8) << 48 == 0x7365000000000000;
}
// timeUnixNano
export function isTimeUnixNano(at: usize, length: u32): bool {
  return length == 12 && load<u64>(at) == 0x78696e55656d6974 && load<u64>(at + 8) << 32 == 0x6f6e614e00000000;
}
// asDouble
export function isAsDouble(at: usize, length: u32): bool {
  return length == 8 && load<u64>(at) == 0x656c62756f447361;
}
// asInt
export function isAsInt(at: usize, length: u32): bool {
  return length == 5 && load<u64>(at) << 24 == 0x746e497361000000;
}
// flags
export function isFlags(at: usize, length: u32): bool {
  return length == 5 && load<u64>(at) << 24 == 0x7367616c66000000;
}
// count
export function isCount(at: usize, length: u32): bool {
  return length == 5 && load<u64>(at) << 24 == 0x746e756f63000000;
}
// bucketCounts
export function isBucketCounts(at: usize, length: u32): bool {
  return length == 12 && load<u64>(at) == 0x6f4374656b637562 && load<u64>(at + 8) << 32 == 0x73746e7500000000;
}
// explicitBounds
export function isExplicitBounds(at: usize, length: u32): bool {
  return length == 14 && load<u64>(at) == 0x746963696c707865 && load<u64>(at + 8) << 16 == 0x73646e756f420000;
}
