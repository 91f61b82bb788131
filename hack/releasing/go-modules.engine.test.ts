import { expect, test } from "vitest";
import { toolPath } from "../fetch-tools.ts";
import { readGoModules } from "./go-modules.ts";

test("the modules of the collector are those that its linker recorded", async () => {
  const modules = readGoModules(await toolPath("otelcol-contrib"));
  expect(modules.length).toBeGreaterThan(200);
  expect(modules).toContainEqual({ path: "go.opentelemetry.io/collector/exporter/otlphttpexporter", version: "v0.149.0" });
  expect(new Set(modules.map(({ path }) => path)).size).toBe(modules.length);
});

test("reports a program without modules by name", () => {
  expect(() => readGoModules(process.execPath)).toThrow(`${process.execPath} has no list of Go modules`);
});
