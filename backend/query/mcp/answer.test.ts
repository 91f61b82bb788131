// What telemetry cannot do in the answer of a tool.
import { expect, test } from "vitest";
import { safeJson } from "./answer.ts";

test("invisible characters, control characters and `<` are escaped, and keep their value", () => {
  const unsafe = /[<\p{Cc}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;
  const characters = Array.from({ length: 0x110000 }, (_, point) => String.fromCodePoint(point)).filter((one) => unsafe.test(one));
  const text = safeJson(characters);
  expect(unsafe.exec(text)?.[0].codePointAt(0)?.toString(16)).toBeUndefined();
  expect(JSON.parse(text)).toEqual(characters);
});
