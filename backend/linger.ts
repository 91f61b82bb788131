// What happens to the rest of a body that nobody will read. Invariant: a sender in the middle of its body gets to see the answer
// instead of a reset, and is cut off if it has not come to its end in time; nothing of what it sends is kept.
import type { IncomingMessage } from "node:http";
import { Socket } from "node:net";

const LINGER_MS = 5000;
/**
 * Strangers that may: reading what they send, only to throw it away, takes time from everybody. A turn of the loop accepts one
 * connection, and reads 64 KiB of each that sends: with 200 of them newcomers waited 16 s, with 16 half a second.
 */
const MOST_STRANGERS = 16;

let strangers = 0;

/** After the answer: throws the rest away for a while, then the connection. `isStranger`: nobody was authenticated. */
export function linger(request: IncomingMessage, isStranger: boolean, ms = LINGER_MS): void {
  const { socket } = request;
  // A request that was made in this process has no real one.
  if (request.complete || !(socket instanceof Socket) || request.destroyed) return;
  if (isStranger && strangers >= MOST_STRANGERS) return socket.destroySoon();
  if (isStranger) strangers += 1;
  const stop = (): void => {
    clearTimeout(timer);
    request.off("end", stop).off("error", stop).off("close", stop);
    if (isStranger) strangers -= 1;
    if (!request.complete) socket.destroy();
  };
  const timer = setTimeout(stop, ms);
  request.once("end", stop).once("error", stop).once("close", stop);
  request.resume();
}
