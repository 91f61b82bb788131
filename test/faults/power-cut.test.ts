// Power failures of the machine of a whole backend that receives logs, spans and metrics: all data that was acknowledged with 204 is there
// afterwards, and so are its accounts. (The accounts alone, with many more writes: accounts-power-cut.test.ts.)
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { BackendOfFile } from "../fixtures/backend-of-file.ts";
import type { Tenant } from "../fixtures/backend-process.ts";
import { CuttableDisk, whyNoCuts } from "../fixtures/power-cut.ts";
import { eventually, temporaryFolder } from "../fixtures/processes.ts";
import { type Losses, lossesOf, NOTHING_LOST, type Sent, Senders, SIGNALS } from "../fixtures/senders.ts";

/** POWER_CUTS=20: so many of either kind. */
const OF_NEW_STORES = Number(process.env["POWER_CUTS"] ?? 1);
const OF_ONE_STORE = Number(process.env["POWER_CUTS"] ?? 2);
const DISK_MIB = 1024;
/** Within this time after the first answers. */
const MOMENTS_MS = 2000;
/** Before the last one: the journal has forgotten by then what it keeps for the metrics engine only at first. */
const LAST_AFTER_MS = 22_000;
/** Every acknowledged record, once. */
const NO_LOSSES = SIGNALS.map(() => NOTHING_LOST);
const READABLE_WITHIN = { timeout: 60_000, interval: 100 };
/** A start may be under way, which has 90 s. */
const CLEARED_WITHIN_MS = 180_000;

/** A backend with its data on a separate disk. Invariant: once disposed, it starts nothing more, and its disk is unmounted. */
class CuttableBackend implements AsyncDisposable {
  readonly #folder = temporaryFolder();
  readonly #disk = new CuttableDisk(join(this.#folder.path, "backend"), DISK_MIB);
  readonly #backend = new BackendOfFile(this.#folder.path);
  readonly #sent: Sent[] = [];
  #tenant: Tenant | undefined;
  #underWay: Promise<unknown> = Promise.resolve();
  #isOver = false;

  prepare(): Promise<void> {
    return this.#unlessOver(async () => {
      await this.#backend.prepare({ JWT_TTL: "2h" });
      this.#tenant = await this.#backend.tenant("cut");
    });
  }

  /**
   * Cuts the power under load, some time after each signal was acknowledged, and restarts the backend on the disk. Returns what was
   * acknowledged.
   */
  cut(number: number, afterMs: number): Promise<string> {
    return this.#unlessOver(() => this.#cut(number, afterMs));
  }

  async #cut(number: number, afterMs: number): Promise<string> {
    const { apiUrl } = this.#backend;
    await using senders = new Senders({ apiUrl, tenant: this.#tenant as Tenant, firstNumber: number * 100_000 });
    for (const signal of SIGNALS) await eventually(`${signal} are taken`, async () => senders.acknowledged(signal).length > 0);
    // Lets each power cut hit another moment of the load.
    await sleep(afterMs);
    const pids = [this.#backend.enginePid("victoria-metrics"), this.#backend.enginePid("vmalert"), this.#backend.pid];
    await this.#disk.cut(pids, () => this.#killAll(pids));
    await senders[Symbol.asyncDispose]();
    this.#sent.push(...senders.sent);
    if (this.#isOver) throw new Error("the test is over");
    await this.#backend.start();
    return SIGNALS.map((signal) => `${senders.acknowledged(signal).length} bodies of ${signal}`).join(", ");
  }

  /** Losses in all power failures, by signal. */
  async losses(): Promise<Losses[]> {
    const { apiUrl } = this.#backend;
    return Promise.all(SIGNALS.map((signal) => lossesOf(apiUrl, this.#tenant?.token ?? "", signal, this.#sent)));
  }

  async #killAll(pids: readonly number[]): Promise<void> {
    for (const pid of pids) process.kill(pid, "SIGKILL");
    await this.#backend.end("SIGKILL");
  }

  async #unlessOver<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isOver) throw new Error("the test is over");
    const underWay = work();
    this.#underWay = underWay;
    return underWay;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    // What a test that ran out of time has begun, and left.
    await this.#backend.end();
    await this.#underWay.catch(() => undefined);
    await this.#backend.end();
    await this.#disk[Symbol.asyncDispose]();
    this.#folder[Symbol.dispose]();
  }
}

/** Does not need `await using`, because a test that times out never leaves its block. */
async function cuttableBackend(): Promise<CuttableBackend> {
  const backend = new CuttableBackend();
  onTestFinished(() => backend[Symbol.asyncDispose](), CLEARED_WITHIN_MS);
  await backend.prepare();
  return backend;
}

const why = await whyNoCuts();
describe.skipIf(why !== undefined)(`after power cuts${why === undefined ? "" : `: ${why}`}`, () => {
  test.each(Array.from({ length: OF_NEW_STORES }, (_, at) => at + 1))(
    "acknowledged data of stores that were just created is readable once (cut %i)",
    async (number) => {
      const backend = await cuttableBackend();
      const taken = await backend.cut(number, Math.random() * MOMENTS_MS);
      console.log(`cut ${number} of new stores: ${taken} were answered`);
      await vi.waitFor(async () => expect(await backend.losses()).toEqual(NO_LOSSES), READABLE_WITHIN);
    },
    240_000,
  );

  test(
    `acknowledged data of the same stores is readable once (${OF_ONE_STORE} cuts)`,
    async () => {
      const backend = await cuttableBackend();
      for (let number = 1; number <= OF_ONE_STORE; number += 1) {
        const taken = await backend.cut(number, Math.random() * MOMENTS_MS + (number === OF_ONE_STORE ? LAST_AFTER_MS : 0));
        console.log(`cut ${number}: ${taken} were answered`);
        await vi.waitFor(async () => expect(await backend.losses()).toEqual(NO_LOSSES), READABLE_WITHIN);
      }
    },
    240_000 * OF_ONE_STORE,
  );
});
