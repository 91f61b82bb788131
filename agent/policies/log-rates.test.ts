import { appendFileSync, mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Outage } from "../../common/outage.ts";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { type LimitedPod, LogRates } from "./log-rates.ts";

const SECONDS = 5;
const limits = (name: string, change: Partial<LimitedPod> = {}): LimitedPod => ({
  namespace: "shop",
  name,
  limit: undefined,
  namespaceLimit: undefined,
  sampled: 1,
  ...change,
});

/** Files of pods that grow by so many bytes per second; the clock moves by 5 s with each measurement. */
class Node implements AsyncDisposable {
  readonly #folder = temporaryFolder();
  readonly rates: LogRates;
  changes = 0;
  #nowMs = 0;

  constructor(pods: readonly LimitedPod[]) {
    for (const { namespace, name } of pods) mkdirSync(join(this.#folder.path, `${namespace}_${name}_uid`, "app"), { recursive: true });
    const outage = new Outage({ began: () => {}, ended: () => {} });
    const changed = (): void => void (this.changes += 1);
    this.rates = new LogRates({ pods: () => pods, changed, outage, folder: this.#folder.path, nowMs: () => this.#nowMs });
  }

  file(name: string): string {
    return join(this.#folder.path, `shop_${name}_uid`, "app", "0.log");
  }

  async run(times: number, bytesPerSecond: Readonly<Record<string, number>>): Promise<void> {
    for (let i = 0; i < times; i += 1) {
      for (const [name, rate] of Object.entries(bytesPerSecond)) appendFileSync(this.file(name), "x".repeat(rate * SECONDS));
      this.#nowMs += SECONDS * 1000;
      await this.rates.measure();
    }
  }

  share(name: string): number {
    return Math.round(100 * this.rates.of(`shop/${name}`).share) / 100;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.rates[Symbol.asyncDispose]();
    this.#folder[Symbol.dispose]();
  }
}

test("a pod above its limit keeps the share that fits, with what was dropped, and all of it once it is quiet again", async () => {
  await using node = new Node([limits("noisy", { limit: 1000 }), limits("quiet", { limit: 1000 })]);
  await node.run(8, { noisy: 10_000, quiet: 999 });
  expect([node.share("noisy"), node.share("quiet")]).toEqual([0.1, 1]);
  // All but the first two measurements, of which one begins and one finds out.
  expect(node.rates.of("shop/noisy").dropped).toBe(6 * SECONDS * 9000);
  expect(node.rates.of("shop/quiet").dropped).toBe(0);
  expect([...node.rates.droppedBytes]).toEqual([["shop", 6 * SECONDS * 9000]]);
  const { changes } = node;
  await node.run(8, { noisy: 900, quiet: 999 });
  expect([node.share("noisy"), node.changes - changes]).toEqual([1, 6]);
});

test("pods of a namespace share its limit: one noisy pod takes nothing from a quiet one", async () => {
  const namespaceLimit = 3000;
  const pods = [limits("noisy", { namespaceLimit }), limits("loud", { namespaceLimit, limit: 1500 }), limits("quiet", { namespaceLimit })];
  await using node = new Node(pods);
  await node.run(8, { noisy: 20_000, loud: 3000, quiet: 500 });
  expect([node.share("noisy"), node.share("loud"), node.share("quiet")]).toEqual([0.06, 0.42, 1]);
});

test("bytes that a rotated file had, and those from before a limit, do not count; lines that sampling drops do not either", async () => {
  await using node = new Node([limits("web", { limit: 1000, sampled: 0.1 })]);
  appendFileSync(node.file("web"), "x".repeat(100_000));
  await node.run(4, { web: 5000 });
  renameSync(node.file("web"), `${node.file("web")}.20261126-080000`);
  await node.run(2, { web: 5000 });
  expect([node.share("web"), node.rates.of("shop/web").dropped]).toEqual([1, 0]);
  await node.run(8, { web: 20_000 });
  expect(node.share("web")).toBe(0.05);
  expect(node.rates.of("shop/web").dropped).toBeGreaterThan(0);
});
