import { expect, test } from "vitest";
import { ByteBudget } from "./byte-budget.ts";

test("reservations stay within the limit and are released once", () => {
  const budget = new ByteBudget(100, 10);
  const first = budget.open("acme");
  first.add(50);
  using second = budget.open("other");
  second.add(50);
  expect(() => second.add(1)).toThrow(expect.objectContaining({ code: "unavailable", status: 503, retryAfterS: 1 }));
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  expect(budget.heldBytes).toBe(50);
});

test("one tenant cannot use more than half, so another is still admitted", () => {
  const budget = new ByteBudget(100, 10);
  using greedy = budget.open("greedy");
  using more = budget.open("greedy");
  greedy.add(40);
  expect(() => more.add(11)).toThrow("too many request bodies");
  using other = budget.open("other");
  other.add(50);
  expect(budget.heldBytes).toBe(90);
});

test("a small budget still lets one tenant send the largest body", () => {
  const budget = new ByteBudget(64, 32);
  using body = budget.open("acme");
  body.add(16);
  body.add(32);
  expect(budget.heldBytes).toBe(48);
});

test("with keepsFree, an owner may use what stays free, so the next owner always gets a share", () => {
  const budget = new ByteBudget(120, 1, { keepsFree: true });
  const reservations = ["a", "b", "c"].map((name) => budget.open(name));
  reservations[0]?.add(60);
  expect(() => reservations[0]?.add(1)).toThrow("too many request bodies");
  reservations[1]?.add(30);
  reservations[2]?.add(15);
  for (const reservation of reservations) expect(() => reservation.add(8)).toThrow("too many request bodies");
  using late = budget.open("late");
  late.add(7);
  for (const reservation of reservations) reservation[Symbol.dispose]();
});
