import { expect, test } from "vitest";
import { COLOURS, pickColour } from "./pick-colour.ts";

test("a name has the same colour whatever was drawn before it, as long as that colour is free", () => {
  const alone = pickColour("checkout", new Map());
  const other = pickColour("gateway", new Map());
  expect(other).not.toBe(alone);
  expect(pickColour("checkout", new Map([["gateway", other]]))).toBe(alone);
});

test("names of one page have different colours until all colours are used, and keep them", () => {
  const used = new Map<string, number>();
  const names = Array.from({ length: COLOURS }, (_, at) => `pod-${at}`);
  for (const name of names) used.set(name, pickColour(name, used));
  expect(new Set(used.values()).size).toBe(COLOURS);
  expect(names.map((name) => pickColour(name, used))).toEqual([...used.values()]);
  expect(pickColour("one more", used)).toBeLessThan(COLOURS);
});
