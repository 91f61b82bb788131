// The client of a request: the network it belongs to, and whether it is still connected.
import { AsyncLocalStorage } from "node:async_hooks";
import { isIPv6 } from "node:net";
import type { FastifyReply } from "fastify";

/** The signal of the client on whose behalf an in-process request runs; such a request has no connection of its own. */
const outerClient = new AsyncLocalStorage<AbortSignal>();

/** The client disconnected before it got an answer. */
export class ClientGoneError extends Error {
  constructor() {
    super("the client disconnected");
    this.name = "ClientGoneError";
  }
}

/** Aborts with ClientGoneError when the client disconnects, and also after it was answered. */
export function goneSignal(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  const leave = (): void => gone.abort(new ClientGoneError());
  reply.raw.once("close", leave);
  const signal = outerClient.getStore();
  if (signal?.aborted) leave();
  signal?.addEventListener("abort", leave, { once: true });
  return gone.signal;
}

/** Runs an in-process request that ends when the client that `signal` watches disconnects. */
export async function onBehalfOf<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  return await outerClient.run(signal, work);
}

/** The network that shares limits for unauthenticated clients. One IPv6 customer owns a whole /64, so its addresses count as one. */
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
