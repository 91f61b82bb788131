// A login may only lead to paths of this server.
import { expect, test } from "vitest";
import { parseReturnPath } from "./attempt.ts";

test.each([
  ["/", "/"],
  ["/console/?view=logs&q=a%20b#now", "/console/?view=logs&q=a%20b#now"],
  ["/a/../b", "/b"],
  ["/?to=https://evil.example", "/?to=https://evil.example"],
])("accepts %j as %j", (text, path) => expect(parseReturnPath(text)).toBe(path));

test.each([
  "",
  "console",
  "https://evil.example/",
  "HTTPS://evil.example",
  "javascript:alert(1)",
  "//evil.example",
  "///evil.example",
  "/\\evil.example",
  "\\\\evil.example",
  "/\t/evil.example",
  "/\n/evil.example",
  " //evil.example",
  "/.//evil.example",
  "/a/..//evil.example",
  "/./\\evil.example",
  "/%0d%0aset-cookie:x\r\n",
  "/ü",
])("rejects %j", (text) => expect(parseReturnPath(text)).toBeUndefined());
