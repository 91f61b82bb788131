import { expect, test, vi } from "vitest";
import { nativeBlock, nativeRows } from "./native-block.ts";
import { DictionaryColumn, encodedStrings, encodedString, StringColumn } from "./native-columns.ts";

const COLUMNS = [["level", "dictionary String"]] as const;

/** A body in which each of 128 strings occurs twice. */
function bodyOf(strings: readonly string[]) {
  const column = new DictionaryColumn();
  for (const string of [...strings, ...strings]) column.add(string);
  return nativeRows([column], 2 * strings.length);
}

function withoutDictionary() {
  const [column, strings] = [new DictionaryColumn(), new StringColumn()];
  for (let index = 0; index < 200; index += 1) {
    column.add(`${index}`);
    strings.add(`${index}`);
  }
  return { rows: nativeRows([column], 200), bytes: strings.streams()[0] ?? new Uint8Array() };
}

/** How often the event loop did something else during `work`, on a clock that each look at it sets forward by 1 ms. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let nowMs = 0;
  using _clock = vi.spyOn(performance, "now").mockImplementation(() => (nowMs += 1));
  let [turns, isOver] = [0, false];
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await work();
  isOver = true;
  return turns;
}

const LABELS = Array.from({ length: 128 }, (_, index) => index);

test("merges thousands of bodies with different strings into one block, and serves other requests meanwhile", async () => {
  const bodies = Array.from({ length: 1500 }, (_, body) => bodyOf(LABELS.map((label) => `${body} ${label}`)));
  let bytes = new Uint8Array();
  const turns = await turnsDuring(async () => {
    bytes = Buffer.concat((await nativeBlock(COLUMNS, bodies)).pieces);
  });
  expect(turns).toBeGreaterThan(200);
  // Each string once, and its number in four bytes for each row.
  const strings = bodies.reduce((sum, { streamLengths: [dictionary = 0] }) => sum + dictionary, 0);
  expect(bytes.length - strings - 1500 * 256 * 4).toBeLessThan(100);
});

test("a body without a dictionary delays no other requests while the others are serialised", async () => {
  const { rows, bytes } = withoutDictionary();
  const bodies = Array.from({ length: 1500 }, () => bodyOf(LABELS.map((label) => `label ${label}`)));
  let written = Buffer.alloc(0);
  const turns = await turnsDuring(async () => {
    written = Buffer.concat((await nativeBlock(COLUMNS, [...bodies, rows])).pieces);
  });
  expect(turns).toBeGreaterThan(100);
  const labels = LABELS.map((label) => encodedString(`label ${label}`));
  const expected = Buffer.concat([...Array.from({ length: 3000 }, () => labels).flat(), bytes]);
  expect(written.subarray(-expected.length).equals(expected)).toBe(true);
  expect([...encodedStrings(expected)]).toHaveLength(1500 * 256 + 200);
});
