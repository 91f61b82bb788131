// A backend process of a history: the product's write path, started, killed and started again. Alone it has the embedded engine and a
// journal; several replicas share a server and their claims of bodies.
import { type ClickHouse, openClickHouse } from "../../backend/engines/clickhouse/clickhouse-client.ts";
import { ApiError } from "../../backend/errors.ts";
import { OnceWriter, type OnceWriterOptions } from "../../backend/storage/write-path/once-writer.ts";
import type { Machine, WallClock } from "./machine.ts";
import { COLUMNS } from "./simulated-clickhouse.ts";

export interface Down {
  readonly downMs: number;
  readonly clockMs: number;
}

export interface Server {
  readonly clickhouse: ClickHouse;
  readonly writer: OnceWriter;
}

const TABLE = "logs";
const RESTART_MS = 1000;
/** As in backend/replicas: when a claim may be taken over, and for how long it is valid. */
const INSERT_MS = 75_000;
const GONE_AFTER_MS = 10_000;
const WINDOW_MS = 600_000;

/** The claims in the shared database; its semantics are those of backend/replicas/body-claims.ts. */
export class Claims {
  readonly #machine: Machine;
  readonly #claims = new Map<string, { process: number; atMs: number; insertId: string; receivedS: number }>();
  readonly #endedAtMs = new Map<number, number>();

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  ended(process: number): void {
    this.#endedAtMs.set(process, this.#machine.nowMs);
  }

  of(process: number): NonNullable<OnceWriterOptions["claims"]> {
    const { random } = this.#machine;
    return {
      claim: async (bodies, insert) => {
        const startedMs = this.#machine.nowMs;
        await this.#machine.delay(random.latencyMs(1));
        const { nowMs } = this.#machine;
        const isOurs = bodies.map((body) => {
          const claim = this.#claims.get(body);
          if (claim && nowMs - claim.atMs < WINDOW_MS) return false;
          this.#claims.set(body, { process, atMs: nowMs, ...insert });
          return true;
        });
        return { isOurs, isValid: () => this.#machine.nowMs - startedMs < INSERT_MS };
      },
      findInsert: async (body) => {
        await this.#machine.delay(random.latencyMs(1));
        return this.#claims.get(body)?.insertId;
      },
      release: async (bodies) => {
        await this.#machine.delay(random.latencyMs(1));
        for (const body of bodies) if (this.#claims.get(body)?.process === process) this.#claims.delete(body);
      },
      takeOver: async (body, receivedS) => {
        await this.#machine.delay(random.latencyMs(1));
        const claim = this.#claims.get(body);
        const { nowMs } = this.#machine;
        const isGone = claim !== undefined && nowMs - (this.#endedAtMs.get(claim.process) ?? Number.POSITIVE_INFINITY) > GONE_AFTER_MS;
        if (claim && (claim.process === process || isGone || nowMs - claim.atMs > INSERT_MS)) {
          const taken = { ...claim, process, atMs: nowMs, receivedS: Math.min(claim.receivedS, receivedS) };
          this.#claims.set(body, taken);
          return taken;
        }
        throw new ApiError("unavailable", "another replica may be storing this body");
      },
    };
  }
}

export interface ReplicaOptions {
  readonly machine: Machine;
  readonly name: string;
  /** Set if several replicas share a server. */
  readonly claims: Claims | undefined;
  readonly onEvent: (what: string) => void;
}

export class Replica {
  readonly #options: ReplicaOptions;
  /** Replicas run on machines with clocks of their own. */
  readonly clock: WallClock = { aheadMs: 0 };
  #process = 0;
  #isStarting = false;
  /** Undefined while the process does not accept requests. */
  server: Server | undefined;

  constructor(options: ReplicaOptions) {
    this.#options = options;
  }

  get process(): number {
    return this.#process;
  }

  start(): void {
    const { machine, name, onEvent } = this.#options;
    if (this.server || this.#isStarting) return;
    this.#isStarting = true;
    const process = machine.spawn(this.clock);
    this.#process = process;
    // Nothing after an await happens if the process is killed.
    void machine.enter(process, async () => {
      try {
        this.server = await this.#open(process);
        this.#isStarting = false;
        onEvent(`${name} has started`);
      } catch (error) {
        onEvent(`${name} cannot start: ${String(error)}`);
        this.end({ downMs: RESTART_MS, clockMs: 0 }, () => machine.disk.closeAll());
      }
    });
  }

  /** Ends the process at once; another one starts later. */
  end({ downMs, clockMs }: Down, onDisk: () => void): void {
    const { machine, claims } = this.#options;
    machine.kill(this.#process);
    claims?.ended(this.#process);
    this.clock.aheadMs += clockMs;
    onDisk();
    this.server = undefined;
    this.#isStarting = false;
    machine.outside(downMs, () => this.start());
  }

  /** Ends the process in order. */
  stop(down: Down): void {
    const { machine } = this.#options;
    const { server } = this;
    const process = this.#process;
    if (!server) return;
    this.server = undefined;
    // No start until it has ended.
    this.#isStarting = true;
    void machine.enter(process, async () => {
      await server.writer[Symbol.asyncDispose]();
      await server.clickhouse[Symbol.asyncDispose]();
      this.end(down, () => machine.disk.closeAll());
    });
  }

  async #open(process: number): Promise<Server> {
    const { claims, name } = this.#options;
    const url = claims && "http://127.0.0.1:8123";
    const clickhouse = await openClickHouse({ url, dataDir: `/data/${name}`, log: this.#log() });
    const writer = await OnceWriter.open(clickhouse, TABLE, COLUMNS, { claims: claims?.of(process) });
    return { clickhouse, writer };
  }

  #log(): never {
    const note = ({ event = "" }: { event?: string }): void => {
      if (event.startsWith("journal")) this.#options.onEvent(event);
    };
    return { trace: note, debug: note, info: note, warn: note, error: note } as never;
  }
}
