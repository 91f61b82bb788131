import { appendFileSync, mkdirSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { Outage } from "../../common/outage.ts";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { LogRates } from "./log-rates.ts";
import type { LimitedPod } from "./rate-allotment.ts";

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
  #pods: readonly LimitedPod[];
  #nowMs = 0;

  constructor(pods: readonly LimitedPod[]) {
    this.#pods = pods;
    for (const { name } of pods) this.#createFolder(name);
    const outage = new Outage({ began: () => {}, ended: () => {} });
    const changed = (): void => void (this.changes += 1);
    this.rates = new LogRates({ pods: () => this.#pods, changed, outage, folder: this.#folder.path, nowMs: () => this.#nowMs });
  }

  /** Replaces all pods of the namespace by these. */
  replace(...pods: LimitedPod[]): void {
    this.#pods = pods;
    for (const { name } of pods) this.#createFolder(name);
  }

  #createFolder(name: string): void {
    mkdirSync(dirname(this.file(name)), { recursive: true });
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

  /** Writes these bytes at once; returns how many of them the collector keeps. */
  async write(name: string, bytes: number): Promise<number> {
    const { share } = this.rates.find(`shop/${name}`, "shop");
    await this.run(1, { [name]: bytes / SECONDS });
    return bytes * share;
  }

  share(name: string): number {
    return Math.round(100 * this.rates.find(`shop/${name}`).share) / 100;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.rates[Symbol.asyncDispose]();
    this.#folder[Symbol.dispose]();
  }
}

test("keeps the share that fits of a pod above its limit, counts the rest, and keeps all lines once it is quiet again", async () => {
  await using node = new Node([limits("noisy", { limit: 1000 }), limits("quiet", { limit: 1000 })]);
  await node.run(8, { noisy: 10_000, quiet: 999 });
  expect([node.share("noisy"), node.share("quiet")]).toEqual([0.1, 1]);
  // All but the first two measurements, of which one begins and one finds out.
  expect(node.rates.find("shop/noisy").dropped).toBe(6 * SECONDS * 9000);
  expect(node.rates.find("shop/quiet").dropped).toBe(0);
  expect([...node.rates.droppedBytes]).toEqual([["shop", 6 * SECONDS * 9000]]);
  const { changes } = node;
  await node.run(8, { noisy: 900, quiet: 999 });
  // Once: what the second measurement found out to be too much is made up for first.
  expect([node.share("noisy"), node.changes - changes]).toEqual([1, 1]);
});

test("pods of a namespace share its limit, and a noisy pod takes nothing from a quiet one", async () => {
  const namespaceLimit = 3000;
  const pods = [limits("noisy", { namespaceLimit }), limits("loud", { namespaceLimit, limit: 1500 }), limits("quiet", { namespaceLimit })];
  await using node = new Node(pods);
  await node.run(8, { noisy: 20_000, loud: 3000, quiet: 500 });
  expect([node.share("noisy"), node.share("loud"), node.share("quiet")]).toEqual([0.06, 0.42, 1]);
});

test("does not count bytes of a rotated file, from before a limit, or of lines that sampling drops", async () => {
  await using node = new Node([limits("web", { limit: 1000, sampled: 0.1 })]);
  appendFileSync(node.file("web"), "x".repeat(100_000));
  await node.run(4, { web: 5000 });
  renameSync(node.file("web"), `${node.file("web")}.20261126-080000`);
  await node.run(2, { web: 5000 });
  expect([node.share("web"), node.rates.find("shop/web").dropped]).toEqual([1, 0]);
  await node.run(8, { web: 20_000 });
  expect(node.share("web")).toBe(0.05);
  expect(node.rates.find("shop/web").dropped).toBeGreaterThan(0);
});

test("bursts with pauses pass no more than the limit after the first one", async () => {
  await using node = new Node([limits("pulse", { limit: 1000 })]);
  await node.run(1, { pulse: 0 });
  let sent = 0;
  for (let i = 0; i < 10; i += 1) {
    const kept = await node.write("pulse", 500_000);
    if (i > 0) sent += kept;
    await node.run(7, { pulse: 0 });
  }
  expect(sent).toBeLessThanOrEqual(9 * 8 * SECONDS * 1000);
  expect(node.rates.find("shop/pulse").dropped).toBeGreaterThan(4_000_000);
  // At most ten minutes after a pulse it is quiet enough to send everything.
  await node.run(120, { pulse: 100 });
  expect(node.share("pulse")).toBe(1);
});

test("new pods of a namespace above its limit start with its share, count from their first byte, and lose nothing else", async () => {
  const namespaceLimit = 1000;
  await using node = new Node([limits("job", { namespaceLimit })]);
  await node.run(1, { job: 0 });
  await node.write("job", 500_000);
  let sent = 0;
  for (let i = 0; i < 10; i += 1) {
    node.replace(limits(`job-${i}`, { namespaceLimit }));
    for (let times = 0; times < 2; times += 1) sent += await node.write(`job-${i}`, 500_000);
  }
  expect(sent).toBeLessThanOrEqual(1.1 * 20 * SECONDS * namespaceLimit);
  expect(node.rates.droppedBytes.get("shop")).toBeGreaterThan(9_800_000);
  node.replace(limits("job-9", { namespaceLimit }), limits("quiet", { namespaceLimit }));
  await node.run(1, { "job-9": 100_000, quiet: 100 });
  expect(node.share("quiet")).toBe(1);
});
