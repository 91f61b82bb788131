// Describes the client of a request: the network it belongs to, the content codings that it accepts, and whether it is still connected.
import { isIPv6 } from "node:net";
import type { FastifyReply } from "fastify";
import { MAX_CHOICES_LENGTH } from "./http-limits.ts";

/** The client disconnected before it got a response. */
export class ClientGoneError extends Error {
  constructor() {
    super("the client disconnected");
    this.name = "ClientGoneError";
  }
}

/** A client that disconnects without a reset looks like one that has only closed its sending side and still reads. */
const HALF_CLOSED_MS = 1000;

/**
 * Aborts with ClientGoneError when the client disconnects, including after the response, and `halfClosedMs` after the client closed its
 * sending side. So such a client gets the response of a short query, and the query of a client that has left ends soon.
 */
export function goneSignal(reply: FastifyReply, halfClosedMs = HALF_CLOSED_MS): AbortSignal {
  const gone = new AbortController();
  const abort = (): void => gone.abort(new ClientGoneError());
  let timer: NodeJS.Timeout | undefined;
  const { socket } = reply.request;
  const abortLater = (): void => void (timer = setTimeout(abort, halfClosedMs));
  if (socket.readableEnded) abortLater();
  else socket.once("end", abortLater);
  reply.raw.once("close", () => {
    clearTimeout(timer);
    socket.off("end", abortLater);
    abort();
  });
  return gone.signal;
}

/** `accepted`: its Accept-Encoding; `q=0` means that it does not accept a coding. */
export function acceptsCoding(accepted = "", coding: string): boolean {
  return accepted
    .slice(0, MAX_CHOICES_LENGTH)
    .split(",")
    .filter((entry) => !/;\s*q=0(?:\.0*)?\s*$/.test(entry))
    .some((entry) => entry.split(";", 1)[0]?.trim().toLowerCase() === coding);
}

/** The network that shares the limits for unauthenticated clients. One IPv6 customer owns a whole /64, so its addresses count as one. */
export function networkOf(address: string): string {
  if (!isIPv6(address) || address.includes(".")) return address;
  const [head = "", tail = ""] = address.split("%", 1)[0]?.split("::") ?? [];
  const left = head.split(":").filter(Boolean);
  const right = tail.split(":").filter(Boolean);
  const zeros = Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => "0");
  const groups = [...left, ...(address.includes("::") ? zeros : []), ...right];
  return groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":");
}
