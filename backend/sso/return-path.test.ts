// Where a login may lead: paths of this server, whatever tricks of addresses a link holds.
import { expect, test } from "vitest";
import { returnPath } from "./return-path.ts";

test.each([
  ["/", "/"],
  ["/console/?view=logs&q=a%20b#now", "/console/?view=logs&q=a%20b#now"],
  ["/a/../b", "/b"],
  ["/?to=https://evil.example", "/?to=https://evil.example"],
])("%j stays here as %j", (text, path) => expect(returnPath(text)).toBe(path));

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
])("%j leads nowhere", (text) => expect(returnPath(text)).toBeUndefined());
