// Reads the times of log lines: RFC 3339 with a zone, numbers since 1970, and klog's local times. Invariant: the byte after the text is no
// part of a time, such as the 0 that file-lines.ts stores there, so it ends every loop.
import { isDigit } from "../../kernel/json";

const SECOND: u64 = 1000000000;
const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 86400 * SECOND;
const FIRST_YEAR: u32 = 1970;
/** The next year does not fit into 63 bits. */
const LAST_YEAR: u32 = 2261;
const NOT_DIGITS: u32 = 100;
const MAX_FRACTION: u32 = 9;
/** 2026-11-29T10:00:00Z */
const SHORTEST: usize = 20;
const MAX_DIGITS: i32 = 19;
const MAX_EXPONENT: i32 = 1000;

/** The time that was read last, in nanoseconds since 1970. */
export let nanoseconds: u64 = 0;

/** The date, hour and minute that were read last, because lines that follow each other usually have the same. */
const LAST_MINUTE: usize = memory.data(16, 16);
let lastMinuteNs: u64 = 0;

/** Reads the time at `at` into `nanoseconds`; returns the address after it, or 0 if there is none. */
export function readTime(at: usize, end: usize): usize {
  if (end - at < SHORTEST) return 0;
  if (v128.any_true(v128.xor(v128.load(at), v128.load(LAST_MINUTE))) && !readMinute(at)) return 0;
  const second = twoDigits(at + 17);
  if (load<u8>(at, 16) != 0x3a || second > 59) return 0;
  nanoseconds = lastMinuteNs + second * SECOND;
  at += 19;
  const point = load<u8>(at);
  if (point == 0x2e || point == 0x2c) {
    at = readFraction(at + 1);
    if (at == 0) return 0;
  }
  return readZone(at);
}

/** Reads the date, `T` or a blank, and the hour and minute. */
function readMinute(at: usize): bool {
  const year = twoDigits(at) * 100 + twoDigits(at + 2);
  const month = twoDigits(at + 5);
  const day = twoDigits(at + 8);
  const separator = load<u8>(at, 10);
  const hour = twoDigits(at + 11);
  const minute = twoDigits(at + 14);
  if (load<u8>(at, 4) != 0x2d || load<u8>(at, 7) != 0x2d || load<u8>(at, 13) != 0x3a) return false;
  if ((separator != 0x54 && separator != 0x20) || hour > 23 || minute > 59) return false;
  if (year < FIRST_YEAR || year > LAST_YEAR || !isDay(year, month, day)) return false;
  lastMinuteNs = daysSince1970(year, month, day) * DAY + (hour * 60 + minute) * MINUTE;
  v128.store(LAST_MINUTE, v128.load(at));
  return true;
}

function readFraction(at: usize): usize {
  let digits: u32 = 0;
  let value: u64 = 0;
  for (; isDigit(load<u8>(at)); at++) {
    value = value * 10 + (load<u8>(at) - 0x30);
    digits++;
    if (digits > MAX_FRACTION) return 0;
  }
  if (digits == 0) return 0;
  for (; digits < MAX_FRACTION; digits++) value *= 10;
  nanoseconds += value;
  return at;
}

/** `Z`, or an offset such as +01:00 or +0100. */
function readZone(at: usize): usize {
  const sign = load<u8>(at);
  if (sign == 0x5a) return at + 1;
  if (sign != 0x2b && sign != 0x2d) return 0;
  const hours = twoDigits(at + 1);
  if (hours > 24) return 0;
  at += load<u8>(at, 3) == 0x3a ? 4 : 3;
  const minutes = twoDigits(at);
  if (minutes > 59) return 0;
  const offset = (hours * 60 + minutes) * MINUTE;
  if (sign == 0x2d) nanoseconds += offset;
  else if (offset > nanoseconds) return 0;
  else nanoseconds -= offset;
  return at + 2;
}

/** NOT_DIGITS or more unless both bytes are digits. */
function twoDigits(at: usize): u32 {
  const high: u32 = load<u8>(at) - 0x30;
  const low: u32 = load<u8>(at, 1) - 0x30;
  return high > 9 || low > 9 ? NOT_DIGITS * NOT_DIGITS : high * 10 + low;
}

function isDay(year: u32, month: u32, day: u32): bool {
  if (month == 0 || month > 12 || day == 0) return false;
  const isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return day <= (month == 2 ? (isLeap ? 29 : 28) : <u32>30 + ((month + (month >> 3)) & 1));
}

/** The days of the proleptic Gregorian calendar; a year is taken to begin in March, so that a leap day is its last one. */
function daysSince1970(year: u32, month: u32, day: u32): u64 {
  const isAfterFebruary = month > 2;
  const y: u32 = isAfterFebruary ? year : year - 1;
  const monthsSinceMarch: u32 = isAfterFebruary ? month - 3 : month + 9;
  const dayOfYear: u32 = (153 * monthsSinceMarch + 2) / 5 + day - 1;
  return <u64>(y * 365 + y / 4 - y / 100 + y / 400 + dayOfYear - 719468);
}

/**
 * Reads klog's `1129 10:00:00.123456`, which has neither year nor zone: the year is that of `reference`, or the next or previous one at its
 * beginning or end. Returns false if it is not a time.
 */
export function readKlogTime(at: usize, reference: u64): bool {
  const month = twoDigits(at);
  const day = twoDigits(at + 2);
  const hour = twoDigits(at + 5);
  const minute = twoDigits(at + 8);
  const second = twoDigits(at + 11);
  if (load<u8>(at, 7) != 0x3a || load<u8>(at, 10) != 0x3a || load<u8>(at, 13) != 0x2e) return false;
  if (hour > 23 || minute > 59 || second > 59) return false;
  let year = yearOf(reference);
  const dayOfYear = reference / DAY - daysSince1970(year, 1, 1);
  if (month == 12 && dayOfYear < 31) year--;
  else if (month == 1 && dayOfYear > 333) year++;
  if (!isDay(year, month, day)) return false;
  nanoseconds = daysSince1970(year, month, day) * DAY + (hour * 60 + minute) * MINUTE + second * SECOND;
  return readFraction(at + 14) == at + 20;
}

function yearOf(time: u64): u32 {
  const days = time / DAY;
  let year = <u32>(FIRST_YEAR + days / 366);
  while (daysSince1970(year + 1, 1, 1) <= days) year++;
  return year;
}

/** The number that was read last is mantissa × 10^exponent. */
let mantissa: u64 = 0;
let exponent: i32 = 0;
let isNegative: bool = false;

/** Reads a JSON number; returns the address after it. Digits that cannot matter are skipped. */
export function readNumber(at: usize): usize {
  mantissa = 0;
  exponent = 0;
  isNegative = load<u8>(at) == 0x2d;
  if (isNegative) at++;
  for (; isDigit(load<u8>(at)); at++) if (!addDigit(load<u8>(at))) exponent++;
  if (load<u8>(at) == 0x2e) {
    at++;
    for (; isDigit(load<u8>(at)); at++) if (addDigit(load<u8>(at))) exponent--;
  }
  if ((load<u8>(at) | 0x20) != 0x65) return at;
  at++;
  const sign = load<u8>(at);
  if (sign == 0x2b || sign == 0x2d) at++;
  let power: i32 = 0;
  for (; isDigit(load<u8>(at)); at++) if (power < MAX_EXPONENT) power = power * 10 + (load<u8>(at) - 0x30);
  exponent += sign == 0x2d ? -power : power;
  return at;
}

function addDigit(digit: u8): bool {
  if (mantissa >= 1000000000000000000) return false;
  mantissa = mantissa * 10 + (digit - 0x30);
  return true;
}

/** The number that was read last, without its fraction; 0 if it is negative or has more than 19 digits. */
export function wholeNumber(): u64 {
  return isNegative ? 0 : scaled(exponent);
}

/** Takes the number that was read last for seconds, milliseconds, microseconds or nanoseconds since 1970, by its size; 0 if it is too large. */
export function numberNs(): u64 {
  if (isNegative) return 0;
  const digits = decimalDigits(mantissa) + exponent;
  return scaled(exponent + (digits <= 11 ? 9 : digits <= 14 ? 6 : digits <= 17 ? 3 : 0));
}

/** 10^0 to 10^19. */
const POWERS: usize = memory.data<u64>([
  1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000, 100000000000, 1000000000000, 10000000000000,
  100000000000000, 1000000000000000, 10000000000000000, 100000000000000000, 1000000000000000000, 10000000000000000000,
]);

function powerOf10(power: i32): u64 {
  return load<u64>(POWERS + ((<usize>power) << 3));
}

/** mantissa × 10^power, or 0 if it has more than 19 digits. */
function scaled(power: i32): u64 {
  if (decimalDigits(mantissa) + power > MAX_DIGITS || power < -MAX_DIGITS) return 0;
  if (power < 0) return mantissa / powerOf10(-power);
  return mantissa == 0 ? 0 : mantissa * powerOf10(power);
}

function decimalDigits(value: u64): i32 {
  if (value == 0) return 0;
  // 1233 / 4096 is slightly more than the decimal logarithm of 2.
  const digits = ((64 - <i32>clz(value)) * 1233) >> 12;
  return digits + <i32>(value >= powerOf10(digits));
}
