// A simulated OpenTelemetry Collector: it reads lines of files in batches into a queue that survives it, stores its offsets once it has read
// all files, and sends entries of the queue to the agent until they are accepted. Killed, it reads again from the stored offsets, and sends
// what is left of the queue in other requests. Invariant: its offsets and its queue are never damaged, because the agent is what is tested.
import type { Machine } from "./machine.ts";
import { encodeBatch } from "./agent-rows.ts";

/** Lines of a file. */
export interface LogFile {
  lines: string[];
  /** Where the next collector begins. */
  storedOffset: number;
  /** Up to where the running one has read. */
  offset: number;
  readAtMs: number;
}

/** An entry of the queue. */
interface Entry {
  readonly lines: readonly string[];
  readonly body: Buffer;
}

type Answer = "accepted" | "refused" | "retry" | undefined;
/** To be called once; undefined: the connection was lost, or nothing listens. */
export type Answered = (answer: Answer) => void;

export const CHECKPOINTS = "/state/checkpoints";
const STORE = `${CHECKPOINTS}/receiver_filelog_files`;
const MAX_BATCH_LINES = 4;
const POLL_MS = 200;
const MAX_ENTRIES = 8;
const MAX_REQUEST_ENTRIES = 3;
const SENDERS = 2;
const BATCH_MS = 300;
const RETRY_MS = 1000;
/** StoredBatches looks every 500 ms, and takes what is stored within 100 ms after the first store that it sees for the same. */
export const SEEN_AFTER_MS = 600;

export class Collector {
  readonly #machine: Machine;
  readonly #files: readonly LogFile[];
  readonly #deliver: (body: Buffer, answered: Answered) => void;
  readonly #queue: Entry[] = [];
  readonly #inFlight = new Set<Entry>();
  /** When each line was first read. */
  readonly readMs = new Map<string, number>();
  /** When the running collector first stored its offsets, and when it did so again after the agent had looked. */
  #firstStoredMs = Number.POSITIVE_INFINITY;
  storedAgainMs = Number.POSITIVE_INFINITY;
  lastStoredMs = 0;
  #process = 0;
  #start = 0;

  constructor(options: { machine: Machine; files: readonly LogFile[]; deliver: (body: Buffer, answered: Answered) => void }) {
    this.#machine = options.machine;
    this.#files = options.files;
    this.#deliver = options.deliver;
  }

  get isRunning(): boolean {
    return this.#machine.isAlive(this.#process);
  }

  get isIdle(): boolean {
    return this.#queue.length === 0 && this.#files.every(({ lines, storedOffset }) => storedOffset === lines.length);
  }

  /** `number`: of the start, from the agent. */
  start(number: number): void {
    this.#start = number;
    this.#process = this.#machine.spawn();
    for (const file of this.#files) file.offset = file.storedOffset;
    this.#inFlight.clear();
    this.#firstStoredMs = this.storedAgainMs = Number.POSITIVE_INFINITY;
    this.#machine.disk.touch(STORE);
    this.#machine.enter(this.#process, () => {
      void this.#poll();
      for (let sender = 0; sender < SENDERS; sender += 1) void this.#send();
    });
  }

  kill(): void {
    this.#machine.kill(this.#process);
  }

  async #poll(): Promise<void> {
    for (;;) {
      await this.#machine.delay(POLL_MS);
      for (const [index, file] of this.#files.entries())
        while (file.offset < file.lines.length) {
          while (this.#queue.length >= MAX_ENTRIES) await this.#machine.delay(POLL_MS);
          // A pass ends where the file did.
          if (!this.#read(index, file)) break;
          await this.#machine.delay(this.#machine.random.latencyMs(5));
        }
      if (!this.#machine.disk.touch(STORE)) continue;
      for (const file of this.#files) file.storedOffset = file.offset;
      this.lastStoredMs = this.#machine.nowMs;
      this.#firstStoredMs = Math.min(this.#firstStoredMs, this.lastStoredMs);
      if (this.lastStoredMs - this.#firstStoredMs >= SEEN_AFTER_MS) this.storedAgainMs = Math.min(this.storedAgainMs, this.lastStoredMs);
    }
  }

  /** Returns whether the batch is full. */
  #read(index: number, file: LogFile): boolean {
    const { random, wallMs } = this.#machine;
    const lines = file.lines.slice(file.offset, file.offset + MAX_BATCH_LINES);
    for (const line of lines) if (!this.readMs.has(line)) this.readMs.set(line, this.#machine.nowMs);
    const body = encodeBatch({
      path: `/var/log/${index}.log`,
      offset: file.offset,
      lines,
      readAtMs: wallMs,
      start: this.#start,
      isReversed: random.chance(0.5),
    });
    this.#queue.push({ lines, body });
    file.offset += lines.length;
    file.readAtMs = this.#machine.nowMs;
    return lines.length === MAX_BATCH_LINES;
  }

  async #send(): Promise<void> {
    const { random } = this.#machine;
    for (;;) {
      await this.#machine.delay(random.latencyMs(BATCH_MS));
      const entries = this.#queue.filter((entry) => !this.#inFlight.has(entry)).slice(0, random.whole(1, MAX_REQUEST_ENTRIES));
      if (entries.length === 0) continue;
      for (const entry of entries) this.#inFlight.add(entry);
      const body = Buffer.concat(entries.map((entry) => entry.body));
      let result = await this.#ask(body);
      while (result === "retry" || result === undefined) {
        await this.#machine.delay(RETRY_MS * (0.5 + random.next()));
        result = await this.#ask(body);
      }
      // Refused: the lines are dropped.
      for (const entry of entries) this.#queue.splice(this.#queue.indexOf(entry), 1);
    }
  }

  #ask(body: Buffer): Promise<Answer> {
    const process = this.#process;
    const { promise, resolve } = Promise.withResolvers<Answer>();
    const soon = (run: () => void): void => this.#machine.outside(this.#machine.random.latencyMs(1), run);
    const answered = (answer: Answer): void =>
      soon(() => {
        if (this.#machine.isAlive(process)) this.#machine.enter(process, () => resolve(answer));
      });
    soon(() => this.#deliver(body, answered));
    return promise;
  }
}
