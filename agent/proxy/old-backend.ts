// Remembers that the backend is of a release that does not accept protobuf on the signed routes, so that each body is not sent twice. The
// proxy then sends JSON and exposition text. This is needed for one release, while agents may be upgraded before the backend.
import type { Logger } from "pino";
import type { ForwardResult } from "./forward.ts";

/** As long as the pool of connections keeps the address of the backend (agent/upstream/pool.ts): afterwards, protobuf is tried again. */
const TRY_AGAIN_MS = 5 * 60_000;

export class OldBackend {
  readonly #log: Logger;
  readonly #nowMs: () => number;
  #untilMs = Number.NEGATIVE_INFINITY;

  constructor(log: Logger, nowMs: () => number) {
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /** The result of `send`, or, if the backend does not accept protobuf, of `sendConverted`. */
  async send(send: () => Promise<ForwardResult>, sendConverted: () => Promise<ForwardResult>): Promise<ForwardResult> {
    if (this.#nowMs() < this.#untilMs) return await sendConverted();
    const result = await send();
    if (result.kind !== "refused" || !result.lacksProtobuf) return result;
    this.#untilMs = this.#nowMs() + TRY_AGAIN_MS;
    this.#log.warn(
      { event: "proxy.backend_without_protobuf" },
      "backend does not accept protobuf: sending JSON and text until it is upgraded",
    );
    return await sendConverted();
  }
}
