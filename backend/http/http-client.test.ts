// Which addresses share the limits of one network.
import { expect, test } from "vitest";
import { networkOf } from "./http-client.ts";

test("counts the addresses of one IPv6 /64 as one, and those of another /64 separately", () => {
  expect(networkOf("2001:db8:1:2::1")).toBe(networkOf("2001:db8:1:2:ffff:ffff:ffff:ffff"));
  expect(networkOf("2001:0db8:0001:0002:0:0:0:9")).toBe(networkOf("2001:db8:1:2::1"));
  expect(networkOf("2001:db8:1:3::1")).not.toBe(networkOf("2001:db8:1:2::1"));
  expect(networkOf("::1")).toBe("0:0:0:0");
  expect(networkOf("fe80::1%eth0")).toBe("fe80:0:0:0");
  expect(networkOf("::ffff:192.0.2.1")).toBe("::ffff:192.0.2.1");
  expect(networkOf("192.0.2.1")).toBe("192.0.2.1");
});
