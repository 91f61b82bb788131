// What happens to the rest of a body that nobody will read. Invariant: a sender in the middle of its body gets to see the answer
// instead of a reset, and is cut off if it has not come to its end in time; nothing of what it sends is kept. Only so many senders are
// listened to; of them no organisation has more than it leaves to others, and strangers have few.
import type { IncomingMessage } from "node:http";
import { Socket } from "node:net";

const LINGER_MS = 5000;
/**
 * Reading what they send, only to throw it away, takes time from everybody: a turn of the loop accepts one connection, and reads 64 KiB
 * of each that sends. With 200 of them newcomers waited 16 s, with 16 half a second. The others may see a reset.
 */
const MOST = 64;
const MOST_STRANGERS = 16;
const STRANGERS = "";

const lingering = new Map<string, number>();
let inAll = 0;

/** After the answer: throws the rest away for a while, then the connection. `orgId`: who was authenticated, if anybody. */
export function linger(request: IncomingMessage, orgId = STRANGERS, ms = LINGER_MS): void {
  const { socket } = request;
  // A request that was made in this process has no real one.
  if (request.complete || !(socket instanceof Socket) || request.destroyed) return;
  if (!mayLinger(orgId)) return socket.destroySoon();
  count(orgId, 1);
  const stop = (): void => {
    clearTimeout(timer);
    request.off("end", stop).off("error", stop).off("close", stop);
    count(orgId, -1);
    if (!request.complete) socket.destroy();
  };
  const timer = setTimeout(stop, ms);
  request.once("end", stop).once("error", stop).once("close", stop);
  request.resume();
}

function mayLinger(orgId: string): boolean {
  const one = (lingering.get(orgId) ?? 0) + 1;
  return one <= MOST - inAll - 1 && (orgId !== STRANGERS || one <= MOST_STRANGERS);
}

function count(orgId: string, change: 1 | -1): void {
  inAll += change;
  const now = (lingering.get(orgId) ?? 0) + change;
  if (now === 0) lingering.delete(orgId);
  else lingering.set(orgId, now);
}
