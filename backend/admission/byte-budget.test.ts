import { afterEach, expect, test, vi } from "vitest";
import { ByteBudget, type Reservation } from "./byte-budget.ts";

afterEach(() => void vi.useRealTimers());

/** A reservation of a client that still sends, at this speed. Returns the names of those that were ended. */
function transfers() {
  vi.useFakeTimers();
  const ended: string[] = [];
  const begin = (budget: ByteBudget, name: string, bytes: number, movedBytes = bytes): Reservation => {
    const reservation = budget.open(name.slice(0, 1));
    reservation.beginTransfer(() => ended.push(name));
    reservation.movedBytes = movedBytes;
    reservation.add(bytes);
    return reservation;
  };
  return { ended, begin };
}

test("reservations stay within the limit and are released once", () => {
  const budget = new ByteBudget(100);
  const first = budget.open("acme");
  first.add(50);
  using second = budget.open("other");
  second.add(50);
  expect(() => second.add(1)).toThrow(expect.objectContaining({ code: "unavailable", status: 503, retryAfterS: 1 }));
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  expect([budget.heldBytes, budget.ownBytes("acme"), budget.ownBytes("other")]).toEqual([50, 0, 50]);
});

test("an owner gets more only if as much stays free as it uses, so that each next owner gets a share", () => {
  const budget = new ByteBudget(120);
  const reservations = ["a", "b", "c"].map((name) => budget.open(name));
  const taken = reservations.map((reservation) => {
    for (;;) {
      try {
        reservation.add(1);
      } catch {
        return reservation.bytes;
      }
    }
  });
  expect(taken).toEqual([60, 30, 15]);
  using late = budget.open("late");
  late.add(15);
  for (const reservation of reservations) reservation[Symbol.dispose]();
});

test("a small budget lets one organisation send the largest body, whose buffer grows", () => {
  const budget = new ByteBudget(64);
  using body = budget.open("acme");
  body.add(16);
  body.add(32);
  expect(budget.heldBytes).toBe(48);
});

test.each([2, 3, 10])("an idle organisation gets memory while %i others use all of it", (others) => {
  const { ended, begin } = transfers();
  const budget = new ByteBudget(1000);
  for (const owner of Array.from("abcdefghij").slice(0, others)) {
    for (let count = 1; count <= 100; count += 1) {
      try {
        begin(budget, `${owner}${count}`, 10);
      } catch {
        break;
      }
    }
  }
  vi.advanceTimersByTime(5000);
  using idle = budget.open("z");
  idle.add(100);
  expect(budget.heldBytes).toBeLessThanOrEqual(1000);
  expect(ended.filter((name) => name.startsWith("z"))).toEqual([]);
});

test("evicts the slowest transfer of the owner with the most, neither a new one nor a complete one", () => {
  const { ended, begin } = transfers();
  const budget = new ByteBudget(100);
  const arrived = begin(budget, "a arrived", 15, 0);
  const fast = begin(budget, "a fast", 10, 1000);
  begin(budget, "a slow", 10, 10);
  begin(budget, "b slow", 20, 1);
  arrived.takeBack = undefined;
  vi.advanceTimersByTime(5000);
  begin(budget, "a new", 5, 0);
  using idle = budget.open("z");
  idle.add(30);
  expect([ended, fast.bytes]).toEqual([[], 10]);
  using next = budget.open("y");
  next.add(15);
  expect([ended, budget.heldBytes, budget.ownBytes("a")]).toEqual([["a slow"], 95, 30]);
});

test("does not end a transfer that holds nothing yet", () => {
  const { ended, begin } = transfers();
  const budget = new ByteBudget(100);
  budget.open("a").beginTransfer(() => ended.push("a empty"));
  begin(budget, "a", 50);
  begin(budget, "b", 25);
  vi.advanceTimersByTime(5000);
  using idle = budget.open("z");
  idle.add(40);
  expect(ended).toEqual(["a"]);
});

test("an evicted transfer releases its memory and gets no more", () => {
  const { ended, begin } = transfers();
  const budget = new ByteBudget(100);
  const slow = begin(budget, "a", 50);
  begin(budget, "b", 25);
  using idle = budget.open("z");
  idle.add(40);
  expect(ended).toEqual(["a"]);
  slow.add(-10);
  slow[Symbol.dispose]();
  expect(budget.heldBytes).toBe(65);
  expect(() => slow.add(1)).toThrow("too much memory");
});

test("an owner that already uses memory evicts none of an owner that would then have less", () => {
  const { ended, begin } = transfers();
  const budget = new ByteBudget(100);
  for (const owner of ["a", "b"]) begin(budget, owner, 40);
  using third = budget.open("z");
  third.add(10);
  expect(() => third.add(31)).toThrow(expect.objectContaining({ code: "unavailable" }));
  expect(ended).toEqual([]);
});
