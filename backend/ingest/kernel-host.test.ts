// How a program works without a kernel.
import { expect, test } from "vitest";
import { LazyKernel, startKernel } from "./kernel-host.ts";

test("creates a kernel at its first use, once", () => {
  let made = 0;
  const kernel = new LazyKernel(() => ({ made: ++made }));
  expect(made).toBe(0);
  expect([kernel.get(), kernel.get()]).toEqual([{ made: 1 }, { made: 1 }]);
  expect(kernel.problem).toBeUndefined();
});

test("tries a missing kernel once, and reports why", () => {
  let tried = 0;
  const kernel = new LazyKernel(() => {
    tried += 1;
    throw new Error("no SIMD");
  });
  expect([kernel.get(), kernel.get(), tried]).toEqual([undefined, undefined, 1]);
  expect(kernel.problem).toEqual(new Error("no SIMD"));
});

test("rejects an invalid module, and one of other sources with what it lacks", () => {
  const empty = Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
  expect(() => startKernel(Buffer.from("no module"), [], {})).toThrow("WebAssembly.Module()");
  expect(() => startKernel<{ read(): void }>(empty, ["read"], {})).toThrow("the kernel was compiled of other sources: it has no read");
});
