// A simulated VictoriaMetrics, in the place of connections to a real one. It acknowledges a write from memory, and writes it to disk up to
// six seconds later; a crash loses what was only in memory. Invariant: writes are kept as they came, so that lost ones can be counted.
import { unavailable } from "../../backend/storage/metrics/upstream.ts";
import { machine } from "./machine.ts";

export { DENY_PARTIAL, isPartial, type QueryAnswer, RETRY_AFTER_S, unavailable } from "../../backend/storage/metrics/upstream.ts";

const WRITE_MS = 2;
const LONGEST_IN_MEMORY_MS = 6000;

export class MetricEngine {
  isUp = true;
  /** 503 to every write, as with a full disk. */
  isRefusing = false;
  readonly #inMemory = new Set<string>();
  readonly #onDisk = new Set<string>();
  refusals = 0;

  has(body: string): boolean {
    return this.#inMemory.has(body) || this.#onDisk.has(body);
  }

  crash(): void {
    this.isUp = false;
    this.#inMemory.clear();
  }

  /** Ends in order: everything is on disk. */
  stop(): void {
    for (const body of this.#inMemory) this.#onDisk.add(body);
    this.crash();
  }

  /** The status of the response; undefined if the engine cannot be reached, or is lost before it responds. */
  async write(body: string): Promise<number | undefined> {
    const { random } = machine();
    await machine().delay(random.latencyMs(WRITE_MS));
    if (!this.isUp) return undefined;
    if (this.isRefusing) {
      this.refusals += 1;
      return 503;
    }
    this.#inMemory.add(body);
    machine().outside(random.whole(0, LONGEST_IN_MEMORY_MS), () => {
      if (this.#inMemory.delete(body)) this.#onDisk.add(body);
    });
    await machine().delay(random.latencyMs(WRITE_MS));
    return this.isUp ? 204 : undefined;
  }
}

let engine = new MetricEngine();

export function useMetricEngine(next: MetricEngine): void {
  engine = next;
  globalThis.fetch = async (_url, { body } = {}) => {
    const status = await engine.write((body as Buffer).toString());
    if (status === undefined) throw new TypeError("fetch failed");
    return { status, body: null } as Response;
  };
}

export class Upstream {
  async post(_path: string, body: Buffer | string): Promise<{ status: number; pieces: Buffer[]; body: Buffer }> {
    const status = await engine.write(body.toString());
    if (status === undefined) throw unavailable(new Error("simulated: connection reset"));
    return { status, pieces: [], body: Buffer.alloc(0) };
  }

  async check(): Promise<void> {}
  async checkComplete(): Promise<void> {}
  async close(): Promise<void> {}
  async destroy(): Promise<void> {}
}
