// Tells work that its client has left. Invariant: a request that is answered within the process, on behalf of another one, ends when the
// client of that one leaves: it has no connection of its own to lose.
import { AsyncLocalStorage } from "node:async_hooks";
import type { FastifyReply } from "fastify";

const behalf = new AsyncLocalStorage<AbortSignal>();

/** The client has left before it was answered. */
export class ClientGoneError extends Error {
  constructor() {
    super("the client has left");
    this.name = "ClientGoneError";
  }
}

/** Aborts with ClientGoneError when the client leaves, and also once it is answered. */
export function goneSignal(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  const leave = (): void => gone.abort(new ClientGoneError());
  reply.raw.once("close", leave);
  const signal = behalf.getStore();
  if (signal?.aborted) leave();
  signal?.addEventListener("abort", leave, { once: true });
  return gone.signal;
}

/** Runs a request within the process for a client that `signal` watches. */
export async function onBehalfOf<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  return await behalf.run(signal, work);
}
