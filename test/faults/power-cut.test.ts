// Power cuts of the machine under a whole backend that takes logs, spans and metrics: what was answered 204 is there afterwards, and so
// are the accounts that it belongs to. (The accounts alone, under many more writes: accounts-power-cut.test.ts.)
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BackendOfFile } from "../fixtures/backend-of-file.ts";
import { CuttableDisk, whyNoCuts } from "../fixtures/power-cut.ts";
import { eventually, temporaryFolder } from "../fixtures/processes.ts";
import { lossesOf, NOTHING_LOST, type Sent, Senders, SIGNALS } from "../fixtures/senders.ts";

/** POWER_CUTS=20 for more. */
const CUTS = Number(process.env["POWER_CUTS"] ?? 3);
const DISK_MIB = 1024;
/** Before the last one: the journal has forgotten by then what it keeps for the metrics engine only at first. */
const LAST_AFTER_MS = 22_000;

const why = await whyNoCuts();
describe.skipIf(why !== undefined)(`after power cuts${why === undefined ? "" : `: ${why}`}`, () => {
  const folder = temporaryFolder();
  let disk: CuttableDisk;
  let backend: BackendOfFile;

  beforeAll(async () => {
    disk = new CuttableDisk(join(folder.path, "backend"), DISK_MIB);
    backend = new BackendOfFile(folder.path);
    await backend.prepare({ JWT_TTL: "2h" });
  });
  afterAll(async () => {
    await backend.end();
    await disk[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });

  const killAll = async (pids: readonly number[]): Promise<void> => {
    for (const pid of pids) process.kill(pid, "SIGKILL");
    await backend.end("SIGKILL");
  };

  /** The first one is of a store made moments before, the others of one that was on the disk already. */
  test(
    `everything answered is readable once (${CUTS} cuts)`,
    async () => {
      const tenant = await backend.tenant("cut");
      const sent: Sent[] = [];
      for (let cut = 1; cut <= CUTS; cut += 1) {
        const senders = new Senders({ apiUrl: backend.apiUrl, tenant, firstNumber: cut * 100_000 });
        for (const signal of SIGNALS) await eventually(`${signal} are taken`, async () => senders.acknowledged(signal).length > 0);
        await sleep(Math.random() * 2000 + (cut === CUTS ? LAST_AFTER_MS : 0));
        const pids = [backend.enginePid("victoria-metrics"), backend.enginePid("vmalert"), backend.pid];
        await disk.cut(pids, () => killAll(pids));
        await senders[Symbol.asyncDispose]();
        sent.push(...senders.sent);
        await backend.start();
        const answered = SIGNALS.map((signal) => `${senders.acknowledged(signal).length} bodies of ${signal}`);
        console.log(`cut ${cut}: ${answered.join(", ")} were answered`);
        for (const signal of SIGNALS)
          await eventually(`every acknowledged record of ${signal} is readable once`, async () => {
            expect(await lossesOf(backend.apiUrl, tenant.token, signal, sent)).toEqual(NOTHING_LOST);
            return true;
          });
      }
    },
    120_000 * CUTS,
  );
});
