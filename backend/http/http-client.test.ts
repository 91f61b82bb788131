// Which addresses share the limits of one network, and when a client counts as gone.
import { EventEmitter } from "node:events";
import type { FastifyReply } from "fastify";
import { expect, test, vi } from "vitest";
import { stub } from "../../test/fixtures/stub.ts";
import { goneSignal, networkOf } from "./http-client.ts";

test("counts the addresses of one IPv6 /64 as one, and those of another /64 separately", () => {
  expect(networkOf("2001:db8:1:2::1")).toBe(networkOf("2001:db8:1:2:ffff:ffff:ffff:ffff"));
  expect(networkOf("2001:0db8:0001:0002:0:0:0:9")).toBe(networkOf("2001:db8:1:2::1"));
  expect(networkOf("2001:db8:1:3::1")).not.toBe(networkOf("2001:db8:1:2::1"));
  expect(networkOf("::1")).toBe("0:0:0:0");
  expect(networkOf("fe80::1%eth0")).toBe("fe80:0:0:0");
  expect(networkOf("::ffff:192.0.2.1")).toBe("::ffff:192.0.2.1");
  expect(networkOf("192.0.2.1")).toBe("192.0.2.1");
});

test("a client is gone when its connection is closed, and a second after it has closed its sending side", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  using _real = { [Symbol.dispose]: () => vi.useRealTimers() };
  const served = () => {
    const [socket, raw] = [new EventEmitter(), new EventEmitter()];
    return { socket, raw, signal: goneSignal(stub<FastifyReply>({ request: { socket }, raw })) };
  };
  const closed = served();
  closed.raw.emit("close");
  expect(closed.signal.aborted).toBe(true);
  const halfClosed = served();
  halfClosed.socket.emit("end");
  vi.advanceTimersByTime(999);
  expect(halfClosed.signal.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect(halfClosed.signal.aborted).toBe(true);
});
