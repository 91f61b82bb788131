import { EventEmitter } from "node:events";
import { expect, test } from "vitest";
import { openStartChannel } from "./launcher-channel.ts";

/** A process with a channel to its parent. */
function child() {
  const sent: unknown[] = [];
  const send = (message: unknown): boolean => sent.push(message) > 0;
  return { sent, process: Object.assign(new EventEmitter(), { send, channel: undefined }) };
}

test("is missing without a parent that created it, and if the API is reachable from other machines", () => {
  expect(openStartChannel({ isLocal: true }, Object.assign(new EventEmitter(), { send: undefined, channel: undefined }))).toBeUndefined();
  const { process, sent } = child();
  expect(openStartChannel({ isLocal: false }, process)).toBeUndefined();
  process.emit("message", { want: "login code" });
  expect(sent).toEqual([]);
});

test("creates a code for the parent that works once, and ignores other messages", () => {
  const { process, sent } = child();
  const start = openStartChannel({ isLocal: true }, process);
  for (const message of ["shutdown", null, undefined, 7, {}, { want: "a password" }, { waitsFor: 3 }]) process.emit("message", message);
  expect([sent, start?.waitsFor()]).toEqual([[], null]);
  process.emit("message", { want: "login code" });
  expect(sent).toEqual([{ loginCode: expect.stringMatching(/^[\w-]{43}$/) }]);
  const { loginCode } = sent[0] as { loginCode: string };
  expect([start?.oneTimeLogin.redeem(loginCode), start?.oneTimeLogin.redeem(loginCode)]).toEqual([true, false]);
});

test("reports what the agent waits for until it no longer waits", () => {
  const { process } = child();
  const start = openStartChannel({ isLocal: true }, process);
  process.emit("message", { waitsFor: "building, 7 s" });
  expect(start?.waitsFor()).toBe("building, 7 s");
  process.emit("message", { waitsFor: null });
  expect(start?.waitsFor()).toBeNull();
});
