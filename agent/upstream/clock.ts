// The time that requests are signed with: this machine's clock, corrected by what the backend's `Date` headers say. Invariant: a machine
// whose clock is hours wrong still signs inside the backend's window of 5 minutes, and says so in its log once when the skew appears and
// once when it is gone.
import type { Logger } from "pino";
import { Outage } from "../../common/outage.ts";

export interface Clock {
  /** Unix seconds as the backend counts them, with fraction. */
  nowUnixS(): number;
  /**
   * What one answer says about the backend's clock. `dateHeader` is its `Date`, the other two this machine's clock in Unix
   * milliseconds just before sending and at the answer's headers. An absent or unreadable header is ignored.
   */
  observe(dateHeader: string | undefined, sentAtMs: number, receivedAtMs: number): void;
  /** Seconds that the backend's clock is ahead of this machine's; 0 until measured, and when it is below what can be measured. */
  skewS(): number;
}

/** Differences below this are the second that `Date` is cut to and the request's travel time, not the clock. */
const MEASURABLE_S = 2;
/** A wrong clock also puts wrong times on telemetry, so it is logged long before signing would fail without the correction. */
const WARN_S = 30;
/** A slower answer says too little about when it was made. */
const SLOWEST_ANSWER_MS = 20_000;

export class BackendClock implements Clock {
  readonly #nowMs: () => number;
  readonly #wrong: Outage<number>;
  #skewS = 0;

  constructor(log: Logger, nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
    this.#wrong = new Outage({
      began: (skew_s) => log.warn({ event: "clock.skewed", skew_s }, wrongClock(skew_s)),
      ended: () => log.info({ event: "clock.recovered" }, "this machine's clock agrees with the backend's again"),
    });
  }

  nowUnixS(): number {
    return this.#nowMs() / 1000 + this.#skewS;
  }

  skewS(): number {
    return this.#skewS;
  }

  observe(dateHeader: string | undefined, sentAtMs: number, receivedAtMs: number): void {
    const answeredAtMs = dateHeader === undefined ? Number.NaN : Date.parse(dateHeader);
    if (Number.isNaN(answeredAtMs) || receivedAtMs < sentAtMs || receivedAtMs - sentAtMs > SLOWEST_ANSWER_MS) return;
    // `Date` is cut to the second, so on average half a second has passed since; the answer was made half-way.
    const measuredS = (answeredAtMs + 500 - (sentAtMs + receivedAtMs) / 2) / 1000;
    this.#skewS = Math.abs(measuredS) < MEASURABLE_S ? 0 : measuredS;
    if (Math.abs(this.#skewS) >= WARN_S) this.#wrong.failed(Math.round(this.#skewS));
    else this.#wrong.recovered();
  }
}

function wrongClock(skewS: number): string {
  const side = skewS > 0 ? "behind" : "ahead of";
  return `this machine's clock is ${Math.abs(skewS)} s ${side} the backend's: requests are signed with the backend's time, but telemetry carries this machine's; set its clock (NTP)`;
}
