// Many agents and one Lease in virtual time: how often they read it, and how soon one of them takes over when the collecting agent is lost.
// The Lease and the rules are real; requests take no time.
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LeaseInMemory } from "../identity/lease.fixture.ts";
import { Lease, type LeaseTerm } from "../identity/lease.ts";
import {
  formatSlots,
  GONE_AFTER_MS,
  parseSlots,
  JUST_AFTER_MS,
  MAX_IDLE_POLL_MS,
  POLL_EVERY_MS,
  StandBy,
  SignsOfLife,
  SLOTS,
  withCandidate,
  withoutCandidates,
} from "./stand-by.ts";
import { COLLECTION_LEASE, STOP_GRACE_MS } from "./cluster-collector.ts";
import { ASK_WITHIN_MS } from "./supervision/queue-state.ts";

const MINUTE_MS = 60_000;
const log = pino({ level: "silent" });

beforeEach(() => void vi.useFakeTimers({ toFake: ["performance", "Date"], now: Date.parse("2026-11-22T12:00:00Z") }));
afterEach(() => void vi.useRealTimers());

/** A node of `Cluster`. */
interface Node {
  readonly name: string;
  readonly lease: Lease;
  readonly standBy: StandBy;
  nextPollMs: number;
}

class Cluster {
  readonly api = new LeaseInMemory();
  readonly nodes: Node[];
  holder = "agent-0";
  taken: LeaseTerm | undefined;
  readonly #stop = new AbortController();

  constructor(count: number) {
    this.nodes = Array.from({ length: count - 1 }, (_, i) => this.#node(`agent-${i + 1}`));
    this.renew();
  }

  get candidates(): string[] {
    return [...parseSlots(this.api.lease.metadata?.annotations ?? {}).keys()];
  }

  /** Renews the Lease like its holder. */
  renew(): void {
    const { metadata } = this.api.lease;
    const resourceVersion = String(Number(metadata?.resourceVersion) + 1);
    const spec = { holderIdentity: this.holder, leaseDurationSeconds: 10, renewTime: new Date() } as LeaseInMemory["lease"]["spec"];
    this.api.lease = { ...this.api.lease, metadata: { ...metadata, resourceVersion }, spec };
  }

  /** Runs for so long; the holder renews while `isHeld`. Ends when another has taken the Lease. */
  async live(forMs: number, isHeld: boolean): Promise<void> {
    // The virtual clock knows whole milliseconds.
    const end = performance.now() + Math.ceil(forMs);
    for (let renewAt = performance.now(); performance.now() < end && !this.taken;) {
      const next = this.nodes.reduce((first, node) => (node.nextPollMs < first.nextPollMs ? node : first));
      const at = Math.min(end, next.nextPollMs, isHeld ? renewAt : Infinity);
      vi.advanceTimersByTime(Math.max(0, at - performance.now()));
      if (isHeld && at === renewAt) {
        this.renew();
        renewAt += COLLECTION_LEASE.renewEveryMs;
      } else if (at === next.nextPollMs) await this.#poll(next);
    }
  }

  /** Removes nodes without warning. */
  lose(names: readonly string[]): void {
    for (const name of names)
      this.nodes.splice(
        this.nodes.findIndex((node) => node.name === name),
        1,
      );
  }

  async #poll(node: Node): Promise<void> {
    const signal = this.#stop.signal;
    this.taken = await node.lease.tryAcquire(signal);
    if (!this.taken && node.lease.view) {
      const pauseMs = await node.standBy.afterPoll(node.lease.view, signal);
      node.nextPollMs = performance.now() + Math.ceil(pauseMs);
    }
  }

  #node(name: string): Node {
    const lease = new Lease(this.api, { namespace: "n", name: "l", identity: name, timing: COLLECTION_LEASE, log });
    return { name, lease, standBy: new StandBy(lease, name), nextPollMs: performance.now() + Math.ceil(Math.random() * 1000) };
  }

  [Symbol.dispose](): void {
    this.#stop.abort();
  }
}

/** From the last renewal to the poll that takes the Lease, of one candidate: it polled just before that renewal. */
const WORST_TAKEOVER_MS = POLL_EVERY_MS * 1.1 + COLLECTION_LEASE.durationMs + JUST_AFTER_MS + 5;

test("by calculation, collects again within 30 s of losing a node, with time for requests and a start", () => {
  const startAndListMs = 5_000;
  const stateEveryMs = 10_000;
  expect(WORST_TAKEOVER_MS + startAndListMs + stateEveryMs).toBeLessThanOrEqual(30_000);
});

test("by calculation, the collector of an agent that loses the Lease ends before another may acquire it", () => {
  // Before TERM, the agent asks whether the queue of files is full.
  expect(COLLECTION_LEASE.renewDeadlineMs + ASK_WITHIN_MS + STOP_GRACE_MS).toBeLessThan(COLLECTION_LEASE.durationMs);
});

describe("when the collecting node is lost", () => {
  test.each([
    ["alone, of two", 2, 0],
    ["alone, of a hundred", 100, 0],
    ["with four candidates, of a hundred", 100, 4],
    ["with four candidates, of a thousand", 1000, 4],
  ])("%s: another agent takes over in time in every phase", { timeout: 60_000 }, async (_what, count, lost) => {
    for (let round = 0; round < 10; round++) {
      using cluster = new Cluster(count);
      await cluster.live(3 * MINUTE_MS + Math.random() * 10_000, true);
      expect(cluster.candidates).toHaveLength(Math.min(5, count - 1));
      cluster.lose(cluster.candidates.slice(0, lost));
      // In every other round the worst that can be: all have just polled, and then it was renewed once more.
      const justPolled = performance.now() + Math.ceil(POLL_EVERY_MS * 1.1);
      if (round % 2 === 0) for (const node of cluster.nodes) node.nextPollMs = Math.max(node.nextPollMs, justPolled);
      cluster.renew();
      const lostAt = performance.now();
      await cluster.live(MINUTE_MS, false);
      expect(cluster.taken).toBeDefined();
      expect(performance.now() - lostAt).toBeLessThanOrEqual(WORST_TAKEOVER_MS);
      expect(performance.now() - lostAt).toBeGreaterThan(COLLECTION_LEASE.durationMs);
    }
  });

  test("with 1,000 agents that are all candidates, another takes over within 30 s", async () => {
    using cluster = new Cluster(1000);
    await cluster.live(20 * MINUTE_MS, true);
    cluster.lose(cluster.candidates);
    await cluster.live(30_000, false);
    expect(cluster.taken).toBeDefined();
  });

  test("with all candidates and clock skew, another takes over later, and never before the Lease allows it", async () => {
    using cluster = new Cluster(20);
    await cluster.live(20 * MINUTE_MS, true);
    cluster.lose(cluster.candidates);
    const lostAt = performance.now();
    vi.setSystemTime(Date.now() - 3_600_000);
    await cluster.live(2 * 1.1 * MAX_IDLE_POLL_MS, false);
    expect(cluster.taken).toBeDefined();
    expect(performance.now() - lostAt).toBeGreaterThan(COLLECTION_LEASE.durationMs - COLLECTION_LEASE.renewEveryMs);
  });
});

test("a few of 1,000 agents poll often, and the others hardly poll", async () => {
  using cluster = new Cluster(1000);
  await cluster.live(20 * MINUTE_MS, true);
  const { reads, writes } = cluster.api;
  await cluster.live(10 * MINUTE_MS, true);
  expect(cluster.candidates).toHaveLength(5);
  const pollsOfCandidates = (5 * 10 * MINUTE_MS) / (POLL_EVERY_MS * 0.9);
  // Each of these writes comes with one more read.
  const signsOfLife = cluster.api.writes - writes;
  expect(signsOfLife).toBeLessThanOrEqual(5 * 10 * 2 + 5);
  const ofOthers = cluster.api.reads - reads - pollsOfCandidates - signsOfLife;
  // A node and minute: 0.2.
  expect(ofOthers / 1000 / 10).toBeLessThan(0.25);
});

test("a clock that is an hour ahead costs at most two additional polls", async () => {
  using cluster = new Cluster(100);
  await cluster.live(20 * MINUTE_MS, true);
  const { reads } = cluster.api;
  // All agents are slow, so their view of the Lease is always late.
  const renew = cluster.renew.bind(cluster);
  cluster.renew = () => {
    renew();
    const spec = cluster.api.lease.spec;
    cluster.api.lease = { ...cluster.api.lease, spec: { ...spec, renewTime: new Date(Date.now() - 3_600_000) } };
  };
  await cluster.live(20 * MINUTE_MS, true);
  const ofCandidates = (5 * 20 * MINUTE_MS) / (POLL_EVERY_MS * 0.9) + 5 * 20 * 2 + 5;
  expect((cluster.api.reads - reads - ofCandidates) / 95 / 20).toBeLessThan(0.5);
});

test("the leader gives the slot of a candidate that is gone to another agent", async () => {
  const { SignsOfLife, withoutCandidates } = await import("./stand-by.ts");
  using cluster = new Cluster(50);
  await cluster.live(3 * MINUTE_MS, true);
  const [gone = ""] = cluster.candidates;
  cluster.lose([gone]);
  const signs = new SignsOfLife();
  const collects = new Lease(cluster.api, { namespace: "n", name: "l", identity: cluster.holder, timing: COLLECTION_LEASE, log });
  const sweep = (): Promise<boolean> =>
    collects.annotate(
      (present) => formatSlots(withoutCandidates(parseSlots(present), signs.gone(parseSlots(present)))),
      AbortSignal.timeout(60_000),
    );
  for (let ms = 0; ms <= GONE_AFTER_MS + 2_000; ms += 2_000) {
    await sweep();
    await cluster.live(2_000, true);
  }
  expect(cluster.candidates).not.toContain(gone);
  await cluster.live(2 * MAX_IDLE_POLL_MS, true);
  expect(cluster.candidates).toHaveLength(5);
});

describe("an agent that led, in a cluster with one node", () => {
  const lease = { annotate: () => Promise.resolve(true) };
  const signal = new AbortController().signal;

  test("polls every few seconds while the API server is away, however long and often", () => {
    const standBy = new StandBy(lease, "agent-0");
    for (let outage = 0; outage < 5; outage++) {
      standBy.afterTerm();
      for (let poll = 0; poll < 100; poll++) expect(standBy.afterFailure()).toBeLessThanOrEqual(POLL_EVERY_MS * 1.1);
    }
  });

  test("polls rarely again when another agent leads and all slots are taken", async () => {
    const standBy = new StandBy(lease, "agent-0");
    standBy.afterTerm();
    const annotations = formatSlots(new Map(["a", "b", "c", "d", "e"].map((name) => [name, 1])));
    await standBy.afterPoll({ annotations, freeInMs: 10_000, renewedAt: new Date() }, signal);
    expect(standBy.afterFailure()).toBeGreaterThan(POLL_EVERY_MS * 1.1);
  });
});

test("polls as often as usual if a Lease claims to be held for a year", async () => {
  const standBy = new StandBy({ annotate: () => Promise.resolve(true) }, "agent-9");
  const annotations = formatSlots(new Map(["a", "b", "c", "d", "e"].map((name) => [name, 1])));
  const view = { annotations, freeInMs: 365 * 86_400_000, renewedAt: new Date(Date.now() - MINUTE_MS) };
  for (let poll = 0; poll < 10; poll++) {
    expect(await standBy.afterPoll(view, new AbortController().signal)).toBeLessThanOrEqual(MAX_IDLE_POLL_MS * 1.1);
  }
});

const FULL = Array.from({ length: SLOTS }, (_, i) => `agent-${i}`).reduce(withCandidate, parseSlots({}));

test("assigns slots until none is free, and parses what it wrote", () => {
  expect([...FULL.keys()]).toEqual(["agent-0", "agent-1", "agent-2", "agent-3", "agent-4"]);
  expect(withCandidate(FULL, "one-more")).toEqual(FULL);
  expect(parseSlots(formatSlots(FULL))).toEqual(FULL);
  expect(parseSlots(formatSlots(withoutCandidates(FULL, ["agent-1"]))).has("agent-1")).toBe(false);
  expect([...withCandidate(FULL, "agent-3")].find(([name]) => name === "agent-3")).toEqual(["agent-3", 2]);
});

test.each(["", "x", "a=b", "=1", "a=-1 b=1.5", `${"a".repeat(129)}=1`, "a=1e9"])("ignores the invalid slot %j", (text) => {
  expect(parseSlots({ "atherops.io/collection-candidates": text }).size).toBe(0);
});

test("ignores slots beyond the limit", () => {
  const text = Array.from({ length: 1000 }, (_, i) => `agent-${i}=1`).join(" ");
  expect(parseSlots({ "atherops.io/collection-candidates": text }).size).toBe(SLOTS);
});

test("a candidate without a sign of life for too long loses its slot; a new or renewed one keeps it", () => {
  const signs = new SignsOfLife();
  const slots = withCandidate(withCandidate(new Map(), "quiet"), "lively");
  expect(signs.gone(slots, 0)).toEqual([]);
  const later = withCandidate(slots, "lively");
  expect(signs.gone(later, GONE_AFTER_MS)).toEqual([]);
  expect(signs.gone(later, GONE_AFTER_MS + 1)).toEqual(["quiet"]);
  expect(signs.gone(withoutCandidates(later, ["quiet"]), GONE_AFTER_MS + 2)).toEqual([]);
  expect(signs.gone(later, GONE_AFTER_MS + 3)).toEqual([]);
});
