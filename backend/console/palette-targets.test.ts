import { expect, test, vi } from "vitest";
import type { Target } from "./palette-targets.ts";

const { findTargets } = await vi.hoisted(async () => {
  vi.stubGlobal("location", { hash: "" });
  vi.stubGlobal("window", { addEventListener: () => undefined });
  vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => undefined, removeItem: () => undefined });
  return await import("./palette-targets.ts");
});

const target = (kind: string, name: string): Target => ({ kind, name, href: `#/${kind}/${name}` });
const TARGETS = [target("screen", "Logs"), target("service", "catalogs"), target("pod", "logs-7f9"), target("service", "cart")];
const names = (typed: string): string[] => findTargets(TARGETS, typed).map(({ name }) => name);

test("orders equal names first, then names that start with the text, then those that contain it", () => {
  expect(names("logs")).toEqual(["Logs", "logs-7f9", "catalogs"]);
});

test("matches every word, including the kind", () => {
  expect(names("service ca")).toEqual(["cart", "catalogs"]);
  expect(names("pod 7f9")).toEqual(["logs-7f9"]);
  expect(names("service nope")).toEqual([]);
});

test("finds letters in their order, after names that contain the text", () => {
  expect(names("ctlgs")).toEqual(["catalogs"]);
  expect(names("lgs")).toEqual(["Logs", "catalogs", "logs-7f9"]);
  expect(names("ogs")).toEqual(["Logs", "catalogs", "logs-7f9"]);
  expect(names("sgol")).toEqual([]);
});

test("offers at most twenty", () => {
  expect(
    findTargets(
      Array.from({ length: 100 }, (_, at) => target("pod", `p${at}`)),
      "p",
    ),
  ).toHaveLength(20);
});
