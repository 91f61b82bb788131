// Reads and discards the rest of a request body after an early answer. Invariant: a client that is still sending sees the answer instead
// of a connection reset, and is disconnected if its body does not end in time. The number of drained bodies is limited in total, and
// unauthenticated clients get few of them; no organisation drains more than it leaves to others.
import type { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { MAX_DRAINING_BODIES, MAX_DRAINING_UNAUTHENTICATED } from "./limits.ts";

const DRAIN_MS = 5000;
const UNAUTHENTICATED = "";

const drainingByOrg = new Map<string, number>();
let draining = 0;

/** Call it after the answer. `orgId`: the authenticated organisation, if there is one. */
export function drainBody(request: IncomingMessage, orgId = UNAUTHENTICATED, ms = DRAIN_MS): void {
  const { socket } = request;
  // A request that was injected within this process has no real socket.
  if (request.complete || !(socket instanceof Socket) || request.destroyed) return;
  if (!mayDrain(orgId)) return socket.destroySoon();
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

function mayDrain(orgId: string): boolean {
  const wanted = (drainingByOrg.get(orgId) ?? 0) + 1;
  return wanted <= MAX_DRAINING_BODIES - draining - 1 && (orgId !== UNAUTHENTICATED || wanted <= MAX_DRAINING_UNAUTHENTICATED);
}

function count(orgId: string, change: 1 | -1): void {
  draining += change;
  const ofOrg = (drainingByOrg.get(orgId) ?? 0) + change;
  if (ofOrg === 0) drainingByOrg.delete(orgId);
  else drainingByOrg.set(orgId, ofOrg);
}
