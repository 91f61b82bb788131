// Layout of the kernel's memory. Invariants: nothing is allocated; the order is tables, text, dictionary, input, guard; bytes of the
// document are read only from the input and its guard, because a guard byte (0) stops every reader.

/** Zero bytes after the input, more than any single step reads ahead. */
export const GUARD: u32 = 64;

const BASE: usize = (__heap_base + 63) & ~63;
/** The dictionary's table of entry addresses. */
export const SLOT_COUNT: u32 = 4096;
export const SLOTS: usize = BASE;
/** Table of sums, by name: whether the last one with that name was monotonic. */
export const GUESS_COUNT: u32 = 1024;
export const GUESSES: usize = SLOTS + 16384;
/** For each label number, the resource and the point that last had the label. */
export const MAX_LABEL_IDS: u32 = 4096;
export const RESOURCE_MARKS: usize = GUESSES + 1024;
export const POINT_MARKS: usize = RESOURCE_MARKS + 16384;
/** The keys of the last point's attributes, by their position. */
export const MAX_PREDICTED: u32 = 64;
export const PREDICTED: usize = POINT_MARKS + 16384;
/** A metric's name and unit. */
export const MAX_NAME_BYTES: u32 = 2048;
export const NAME: usize = PREDICTED + 256;
/** A number that the host wrote. */
export const NUMBER_BYTES: u32 = 64;
export const NUMBERS: usize = NAME + 2 * MAX_NAME_BYTES;
/** Running sums of a histogram's counts, 64 bits each. */
export const MAX_BUCKETS: u32 = 512;
export const SUMS: usize = NUMBERS + 2 * NUMBER_BYTES;
/** More than one line, or all labels of a point, can take. */
export const MAX_LINE_BYTES: u32 = 96 * 1024;
/** The labels of a histogram's point. */
export const POINT_LABELS: usize = SUMS + 8 * MAX_BUCKETS;
/** Lines that the host has not received yet. */
export const OUT: usize = POINT_LABELS + MAX_LINE_BYTES;
export const OUT_FULL: usize = OUT + MAX_LINE_BYTES;
/** State that is kept from one document to the next. */
export const DICTIONARY: usize = OUT_FULL + MAX_LINE_BYTES;
export const DICTIONARY_END: usize = DICTIONARY + 1024 * 1024;
export const INPUT: usize = DICTIONARY_END;
