// Provides the time to sign with: this machine's clock, corrected by the backend's `Date` headers. Invariant: a machine whose clock is
// hours off still signs within the backend's window of 5 minutes, and logs the skew once when it appears and once when it is gone.
import type { Logger } from "pino";
import { Outage } from "../../common/outage.ts";

export interface Clock {
  /** Unix seconds of the backend's clock, with a fraction. */
  nowUnixS(): number;
  /**
   * Measures the backend's clock from one response. `dateHeader` is its `Date`; the other two are this machine's clock in Unix
   * milliseconds, just before sending and when the headers arrived. An absent or unreadable header is ignored.
   */
  observe(dateHeader: string | undefined, sentAtMs: number, receivedAtMs: number): void;
  /** Seconds by which the backend's clock is ahead of this machine's; 0 until measured, and if the difference is too small to measure. */
  skewS(): number;
}

/** Smaller differences can result from the travel time and from `Date` being truncated to seconds. */
const MEASURABLE_S = 2;
/** A wrong clock also puts wrong times on telemetry, so it is logged long before uncorrected signatures would fail. */
const WARN_S = 30;
/** The time of a slower response is too uncertain. */
const MAX_ROUND_TRIP_MS = 20_000;

export class BackendClock implements Clock {
  readonly #nowMs: () => number;
  readonly #skewed: Outage<number>;
  #skewS = 0;

  constructor(log: Logger, nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
    this.#skewed = new Outage({
      began: (skew_s) => log.warn({ event: "clock.skewed", skew_s }, describeSkew(skew_s)),
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
    if (Number.isNaN(answeredAtMs) || receivedAtMs < sentAtMs || receivedAtMs - sentAtMs > MAX_ROUND_TRIP_MS) return;
    // `Date` is truncated to the second, so half a second is added on average; the response is assumed to be created half-way.
    const measuredS = (answeredAtMs + 500 - (sentAtMs + receivedAtMs) / 2) / 1000;
    this.#skewS = Math.abs(measuredS) < MEASURABLE_S ? 0 : measuredS;
    if (Math.abs(this.#skewS) >= WARN_S) this.#skewed.failed(Math.round(this.#skewS));
    else this.#skewed.recovered();
  }
}

function describeSkew(skewS: number): string {
  const side = skewS > 0 ? "behind" : "ahead of";
  return `this machine's clock is ${Math.abs(skewS)} s ${side} the backend's: requests are signed with the backend's time, but telemetry has this machine's time; synchronise the clock (NTP)`;
}
