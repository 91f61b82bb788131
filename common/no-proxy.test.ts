// NO_PROXY, entry by entry.
import { expect, it } from "vitest";
import { isExempt } from "./no-proxy.ts";
import { bareHost, isLoopback } from "./ip-networks.ts";

it.each([
  ["https://backend.test", "backend.test", true],
  ["https://backend.test", ".test", true],
  ["https://backend.test", "*.test", true],
  ["https://backend.test", "*.backend.test", false],
  ["https://backend.test", "*", true],
  ["https://backend.test", "other.test,*", true],
  ["https://Backend.test.", "backend.TEST", true],
  ["https://backend.test", "ackend.test", false],
  ["https://backend.test", "", false],
  ["https://backend.test", ".", false],
  ["https://backend.test", "other.test\tbackend.test", true],
  ["https://backend.test:8443", "backend.test:8443", true],
  ["https://backend.test", "backend.test:443", true],
  ["https://backend.test:8443", "backend.test:443", false],
  ["https://10.1.2.3", "10.0.0.0/8", true],
  ["https://10.1.2.3", "10.1.2.3", true],
  ["https://10.1.2.3", "10.1.2.3/32", true],
  ["https://10.1.2.3", "10.1.2.2/31", true],
  ["https://10.1.2.3", "10.1.2.4/31", false],
  ["https://11.1.2.3", "10.0.0.0/8", false],
  ["https://10.1.2.3", "0.0.0.0/0", true],
  ["https://10.1.2.3", "10.0.0.0/33", false],
  ["https://10.1.2.3", "10.0.0.0/x", false],
  ["https://10.1.2.3", "10.0.0.0/8/8", false],
  ["https://10.1.2.3", "10.1.2", false],
  ["https://10.1.2.3:8443", "10.0.0.0/8,backend.test", true],
  ["https://10.backend.test", "10.0.0.0/8", false],
  ["https://[2001:db8::7]:8443", "2001:db8::/32", true],
  ["https://[2001:db8::7]", "[2001:db8::7]", true],
  ["https://[2001:db8::7]:8443", "[2001:db8::7]:8443", true],
  ["https://[2001:db8::7]", "2001:0db8:0:0::7", true],
  ["https://[2001:db9::7]", "2001:db8::/32", false],
  ["https://[2001:db8::7]", "0.0.0.0/0", false],
])("%s is exempt by NO_PROXY=%j: %s", (origin, noProxy, expected) => {
  expect(isExempt(origin, noProxy)).toBe(expected);
});

it.each([
  ["localhost", true],
  ["LOCALHOST", true],
  ["127.0.0.1", true],
  ["127.9.9.9", true],
  ["[::1]", true],
  ["::1", true],
  ["127.0.0.1.example", false],
  ["localhost.example", false],
  ["127.0.0.256", false],
  ["0.0.0.0", false],
  ["10.0.0.1", false],
  ["", false],
])("%j is loopback: %s", (host, expected) => {
  expect(isLoopback(host)).toBe(expected);
});

it("removes the brackets of a host", () => {
  expect(["[::1]", "::1", "a.example", ""].map(bareHost)).toEqual(["::1", "::1", "a.example", ""]);
});
