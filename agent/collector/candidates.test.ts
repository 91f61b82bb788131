import { expect, test } from "vitest";
import { annotationOf, GONE_AFTER_MS, SignsOfLife, SLOTS, slotsOf, withCandidate, without } from "./candidates.ts";

const FULL = Array.from({ length: SLOTS }, (_, i) => `agent-${i}`).reduce(withCandidate, slotsOf({}));

test("slots are taken until there is none left, and read back as they were written", () => {
  expect([...FULL.keys()]).toEqual(["agent-0", "agent-1", "agent-2", "agent-3", "agent-4"]);
  expect(withCandidate(FULL, "one-more")).toEqual(FULL);
  expect(slotsOf(annotationOf(FULL))).toEqual(FULL);
  expect(slotsOf(annotationOf(without(FULL, ["agent-1"]))).has("agent-1")).toBe(false);
  expect([...withCandidate(FULL, "agent-3")].find(([name]) => name === "agent-3")).toEqual(["agent-3", 2]);
});

test.each(["", "x", "a=b", "=1", "a=-1 b=1.5", `${"a".repeat(129)}=1`, "a=1e9"])("what is no slot is none: %j", (text) => {
  expect(slotsOf({ "atherops.io/collection-candidates": text }).size).toBe(0);
});

test("more than there may be are not read", () => {
  const text = Array.from({ length: 1000 }, (_, i) => `agent-${i}=1`).join(" ");
  expect(slotsOf({ "atherops.io/collection-candidates": text }).size).toBe(SLOTS);
});

test("who gives no sign of life for too long is gone; who gives one, or comes anew, is not", () => {
  const signs = new SignsOfLife();
  const slots = withCandidate(withCandidate(new Map(), "quiet"), "lively");
  expect(signs.gone(slots, 0)).toEqual([]);
  const later = withCandidate(slots, "lively");
  expect(signs.gone(later, GONE_AFTER_MS)).toEqual([]);
  expect(signs.gone(later, GONE_AFTER_MS + 1)).toEqual(["quiet"]);
  expect(signs.gone(without(later, ["quiet"]), GONE_AFTER_MS + 2)).toEqual([]);
  expect(signs.gone(later, GONE_AFTER_MS + 3)).toEqual([]);
});
