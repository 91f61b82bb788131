// Terms and annotations of a Lease, with an API server in memory. With a real one: test/faults/cluster-lease.test.ts.
import { pino } from "pino";
import { expect, test } from "vitest";
import { setTimeout as sleep } from "node:timers/promises";
import { KubernetesError } from "../kubernetes/transport.ts";
import { LeaseInMemory } from "./lease.fixture.ts";
import { Lease } from "./lease.ts";

const NEVER = new AbortController().signal;
const TIMING = { durationMs: 1_000, renewDeadlineMs: 700, renewEveryMs: 650 };

function contender(api: LeaseInMemory, identity: string, timing = TIMING): Lease {
  return new Lease(api, { namespace: "n", name: "l", identity, timing, log: pino({ level: "silent" }) });
}

test("a term whose renewal hangs ends before another agent can acquire the Lease", async () => {
  const api = new LeaseInMemory();
  await using term = await contender(api, "old").tryAcquire(NEVER);
  api.hangs = "old";
  const heir = contender(api, "heir");
  let taken = await heir.tryAcquire(NEVER);
  while (!taken) {
    // Paces the retries of the other agent.
    await sleep(10);
    taken = await heir.tryAcquire(NEVER);
  }
  await using _ = taken;
  expect(term?.signal.aborted).toBe(true);
});

test("creates a missing Lease once, and acquires it only when a holder of the deleted one has ended its term", async () => {
  const api = new LeaseInMemory();
  await using old = await contender(api, "old").tryAcquire(NEVER);
  api.isMissing = true;
  const heirs = ["one", "two"].map((name) => contender(api, name));
  const attempts = () => Promise.all(heirs.map((heir) => heir.tryAcquire(NEVER)));
  let taken = await attempts();
  expect(taken).toEqual([undefined, undefined]);
  while (!taken.some(Boolean)) {
    // Paces the retries of the other agents.
    await sleep(10);
    taken = await attempts();
  }
  expect(taken.filter(Boolean)).toHaveLength(1);
  expect(old?.signal.aborted).toBe(true);
  for (const term of taken) await term?.[Symbol.asyncDispose]();
});

test("each write of the holder includes its annotations and keeps those of others", async () => {
  const api = new LeaseInMemory();
  const timing = { durationMs: 5_000, renewDeadlineMs: 4_000, renewEveryMs: 20 };
  let count = 0;
  const first = await contender(api, "first", timing).tryAcquire(NEVER, () => ({ count: String(++count) }));
  expect(api.lease.metadata?.annotations).toEqual({ count: "1" });
  const other = contender(api, "other", timing);
  expect(await other.tryAcquire(NEVER)).toBeUndefined();
  await expect.poll(() => other.annotate(() => ({ other: "here" }), NEVER)).toBe(true);
  await expect.poll(() => Number(api.lease.metadata?.annotations?.["count"])).toBeGreaterThan(2);
  expect(api.lease.metadata?.annotations).toMatchObject({ other: "here" });
  expect(api.lease.spec?.holderIdentity).toBe("first");
  // Released although another client wrote last: the next holder need not wait.
  api.conflicts = 1;
  await first?.[Symbol.asyncDispose]();
  await using second = await other.tryAcquire(NEVER);
  expect(second?.found).toMatchObject({ other: "here", count: String(count) });
});

test("an agent without the Lease knows its remaining wait, which other agents' signs of life do not extend", async () => {
  const api = new LeaseInMemory();
  const lost = new AbortController();
  await contender(api, "lost").tryAcquire(lost.signal);
  lost.abort();
  const heir = contender(api, "heir");
  expect(await heir.tryAcquire(NEVER)).toBeUndefined();
  const before = heir.view?.freeInMs ?? 0;
  expect(before).toBeGreaterThan(0);
  expect(before).toBeLessThanOrEqual(TIMING.durationMs);
  await contender(api, "third").annotate(() => ({ third: "alive" }), NEVER);
  // Time has to pass before the Lease is closer to its end.
  await sleep(20);
  expect(await heir.tryAcquire(NEVER)).toBeUndefined();
  expect(heir.view?.freeInMs).toBeLessThan(before);
  expect(heir.view?.annotations).toEqual({ third: "alive" });
});

test("reports a conflicting write as a conflict, and throws any other error", async () => {
  const api = new LeaseInMemory();
  api.conflicts = 1;
  expect(await contender(api, "a").annotate(() => ({ a: "1" }), NEVER)).toBe(false);
  api.refusal = new KubernetesError(403, "Forbidden", "no");
  await expect(contender(api, "a").annotate(() => ({ a: "1" }), NEVER)).rejects.toThrow("no");
});

test("acquires a Lease with the highest number of transitions that the API accepts", async () => {
  const api = new LeaseInMemory();
  api.lease = { metadata: { resourceVersion: "1" }, spec: { leaseTransitions: 2_147_483_647 } };
  await using term = await contender(api, "next").tryAcquire(NEVER);
  expect(term?.signal.aborted).toBe(false);
  expect(api.lease.spec).toMatchObject({ holderIdentity: "next", leaseTransitions: 2_147_483_647 });
});
