// Hashes and verifies passwords with Argon2id, in a fair queue because each hash costs 19 MiB and a thread of the pool. Invariant: an
// unknown user costs the same work as a known one. At most two hashes are computed at once; a request waits only for requests of its own
// organisation or client network, and nothing is computed for a client that left. login-backoff.ts orders the logins of one network.
import { hash, verify, type Options } from "@node-rs/argon2";
import type { FastifyReply, FastifyRequest } from "fastify";
import { MAX_RUNNING_HASHES, MAX_WAITING_HASHES, MAX_WAITING_HASHES_PER_CLIENT } from "../limits.ts";
import { orgOf } from "../request-identity.ts";
import { ApiError } from "../../errors.ts";
import { FairQueue, QueueFullError } from "../../admission/fair-queue.ts";
import { networkOf } from "../../http/client.ts";

/** OWASP Password Storage Cheat Sheet: Argon2id (the default of the library) with m=19 MiB, t=2, p=1. */
const PARAMETERS: Options = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

/** JSON schema of a new password. */
export const PASSWORD_SCHEMA = { type: "string", minLength: 8, maxLength: 256 } as const;

export async function hashPassword(password: string): Promise<string> {
  return await hash(password, PARAMETERS);
}

let decoy: Promise<string> | undefined;

/** Whether the password is right. Without a hash (unknown user, or one without a password) it does the same work and returns false. */
export async function passwordMatches(passwordHash: string | undefined, password: string): Promise<boolean> {
  const known = passwordHash !== undefined;
  const matches = await verify(known ? passwordHash : await decoyHash(), password, PARAMETERS);
  return known && matches;
}

/** Computed before the first login, so that the first unknown user does not cost a second hash. */
export async function decoyHash(): Promise<string> {
  decoy ??= hashPassword("a password that no user has");
  return await decoy;
}

export class HashQueue {
  readonly #queue = new FairQueue({
    running: MAX_RUNNING_HASHES,
    perOrg: MAX_RUNNING_HASHES,
    waitingPerOrg: MAX_WAITING_HASHES_PER_CLIENT,
    waitingInAll: MAX_WAITING_HASHES,
  });

  /**
   * Runs `work` when a slot is free. Throws ApiError `unavailable` if too many requests of the same client wait already, or the client has
   * left. `rank`: the order among requests of one network (FairQueue.run).
   */
  async run<T>(request: FastifyRequest, reply: FastifyReply, work: () => Promise<T>, rank?: number): Promise<T> {
    const gone = new AbortController();
    const leave = (): void => gone.abort();
    reply.raw.once("close", leave);
    try {
      return await this.#queue.run(orgOf(request) ?? networkOf(request.ip), gone.signal, work, rank);
    } catch (error) {
      if (gone.signal.aborted) throw new ApiError("unavailable", "the client disconnected", { retryAfterS: 1 });
      if (!(error instanceof QueueFullError)) throw error;
      throw new ApiError("unavailable", "too many passwords are waiting to be hashed: try again", { cause: error, retryAfterS: 5 });
    } finally {
      reply.raw.off("close", leave);
    }
  }
}
