// Turns for password hashes, which cost 19 MiB and a thread of the pool each. Invariant: no more than two are computed at once,
// whoever asks for them and for what; who asks from one address, or for one organisation, waits behind its own, never behind all of
// another's, and nobody's many keep another's one from waiting; nothing is computed for a client that has gone. login-backoff.ts orders the
// logins of one address.
import type { FastifyReply, FastifyRequest } from "fastify";
import { orgOf } from "../auth/request-identity.ts";
import { ApiError } from "../errors.ts";
import { FairTurns, QueueFullError } from "../admission/fair-turns.ts";
import { networkOf } from "../http/client-network.ts";

const AT_ONCE = 2;
const WAITING = 256;
/** Who has most of them waiting makes room for others. */
const WAITING_IN_ALL = 2048;

export class HashTurns {
  readonly #turns = new FairTurns({ running: AT_ONCE, perOrg: AT_ONCE, waitingPerOrg: WAITING, waitingInAll: WAITING_IN_ALL });

  /**
   * Runs `work` in turn. Throws ApiError `unavailable` where too much of the same asker waits already, or the client has gone. `rank`:
   * the order among requests of one address (FairTurns.run).
   */
  async run<T>(request: FastifyRequest, reply: FastifyReply, work: () => Promise<T>, rank?: number): Promise<T> {
    const gone = new AbortController();
    const leave = (): void => gone.abort();
    reply.raw.once("close", leave);
    try {
      return await this.#turns.run(orgOf(request) ?? networkOf(request.ip), gone.signal, work, rank);
    } catch (error) {
      if (gone.signal.aborted) throw new ApiError("unavailable", "the client went away", { retryAfterS: 1 });
      if (!(error instanceof QueueFullError)) throw error;
      throw new ApiError("unavailable", "too many passwords wait to be hashed: try again", { cause: error, retryAfterS: 5 });
    } finally {
      reply.raw.off("close", leave);
    }
  }
}
