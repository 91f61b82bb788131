import { expect, test } from "vitest";
import { importsIn, packageOf } from "./imports.ts";

test.each([
  ['import { a } from "./a.ts";', "./a.ts", false],
  ['import "./a.ts";', "./a.ts", false],
  ['import type { A } from "./a.ts";', "./a.ts", true],
  ['import { type A, b } from "./a.ts";', "./a.ts", false],
  ['import type {\n  A,\n  B,\n} from "./a.ts";', "./a.ts", true],
  ['export { a } from "../b/a.ts";', "../b/a.ts", false],
  ['export type { A } from "../b/a.ts";', "../b/a.ts", true],
  ['const late = await import("./late.ts");', "./late.ts", false],
  ['const { x } = require("chdb/connection") as typeof import("chdb/connection");', "chdb/connection", false],
  ['const file = import.meta.resolve("ajv");', "ajv", false],
  ['import data from "./data.json" with { type: "json" };', "./data.json", false],
])("parses %s", (source, path, isType) => {
  expect(importsIn(source)[0]).toEqual({ path, isType });
});

test("a type import does not affect the import after it", () => {
  const source = 'import type { A } from "./a.ts";\nimport { b } from "./b.ts";\nexport type C = string;\nimport { d } from "./d.ts";';
  expect(importsIn(source)).toEqual([
    { path: "./a.ts", isType: true },
    { path: "./b.ts", isType: false },
    { path: "./d.ts", isType: false },
  ]);
});

test("finds the package of an import, and distinguishes files and Node's own modules", () => {
  const paths = ["ajv", "chdb/connection", "@clickhouse/client", "@fastify/swagger/lib/x.js", "./a.ts", "../a.ts", "node:fs/promises"];
  expect(paths.map(packageOf)).toEqual(["ajv", "chdb", "@clickhouse/client", "@fastify/swagger", undefined, undefined, undefined]);
});
