import { expect, test } from "vitest";
import { type EventsCollector, EventsCheckpoint, SETTLED_MS } from "./events-checkpoint.ts";

const NEVER = new AbortController().signal;
const ANNOTATION = "atherops.io/events-delivered";

function world(): {
  checkpoint: EventsCheckpoint;
  is: { newest: string; delivered: boolean; pid: number | null; ended: boolean; starts: number };
  collector: EventsCollector;
} {
  const is = { newest: "100", delivered: true, pid: 1 as number | null, ended: false, starts: 0 };
  const api = { newestOfEvents: () => (is.newest === "" ? Promise.reject(new Error("away")) : Promise.resolve(is.newest)) };
  const collector: EventsCollector = {
    get metricsUrl() {
      return is.pid === null ? undefined : "http://collector";
    },
    status: () => ({ pid: is.pid }) as ReturnType<EventsCollector["status"]>,
    get eventsEnded() {
      return is.ended;
    },
    killAndRestart: () => void is.starts++,
  };
  return { checkpoint: new EventsCheckpoint(api, () => Promise.resolve(is.delivered)), is, collector };
}

test("a checkpoint is passed on when all that happened before it has left the collector, some time after", async () => {
  const { checkpoint, is, collector } = world();
  expect([checkpoint.version, checkpoint.annotations]).toEqual(["", {}]);
  await checkpoint.follow(collector, NEVER, 0);
  is.newest = "200";
  await checkpoint.follow(collector, NEVER, SETTLED_MS - 1);
  expect(checkpoint.version).toBe("");
  is.delivered = false;
  await checkpoint.follow(collector, NEVER, SETTLED_MS + 1);
  expect(checkpoint.version).toBe("");
  is.delivered = true;
  await checkpoint.follow(collector, NEVER, SETTLED_MS + 2);
  expect([checkpoint.version, checkpoint.annotations]).toEqual(["100", { [ANNOTATION]: "100" }]);
  await checkpoint.follow(collector, NEVER, 2 * SETTLED_MS + 2);
  expect(checkpoint.version).toBe("200");
});

test("what another collector has read is no word of the one that runs", async () => {
  const { checkpoint, is, collector } = world();
  await checkpoint.follow(collector, NEVER, 0);
  // The collector crashed, and the next one has not started or has read nothing yet.
  is.pid = null;
  await checkpoint.follow(collector, NEVER, SETTLED_MS);
  is.pid = 2;
  await checkpoint.follow(collector, NEVER, SETTLED_MS + 1);
  expect(checkpoint.version).toBe("");
  is.pid = 3;
  await checkpoint.follow(collector, NEVER, 3 * SETTLED_MS);
  expect(checkpoint.version).toBe("");
});

test("the next one goes on where the last one came to", async () => {
  const { checkpoint } = world();
  await checkpoint.begin({ [ANNOTATION]: "99" }, NEVER);
  expect(checkpoint.version).toBe("99");
});

test.each([
  ["a version of a store that has been put back since", "101"],
  ["no version", "x1"],
  ["too long a number", "1".repeat(20)],
  ["nothing", ""],
])(
  "%s is not gone on from, but from now: a collector without a checkpoint asks for all events, and none follow where that fails",
  async (_what, version) => {
    const { checkpoint, is } = world();
    await checkpoint.begin({ [ANNOTATION]: version }, NEVER);
    expect(checkpoint.version).toBe("100");
    is.newest = "";
    await checkpoint.begin({ [ANNOTATION]: "x1" }, NEVER);
    expect(checkpoint.version).toBe("");
  },
);

test("it is gone on from where the API server does not say how far it is, and stays where it then stays away", async () => {
  const { checkpoint, is, collector } = world();
  is.newest = "";
  await checkpoint.begin({ [ANNOTATION]: "99" }, NEVER);
  expect(checkpoint.version).toBe("99");
  await expect(checkpoint.follow(collector, NEVER, 0)).rejects.toThrow("away");
  expect(checkpoint.annotations).toEqual({ [ANNOTATION]: "99" });
});

test("the end of a term does not wait for the answer of a collector that hangs: it is to be ended in time", async () => {
  const { collector } = world();
  const term = new AbortController();
  const hung = (_url: string, signal: AbortSignal): Promise<boolean> =>
    new Promise((resolve) => signal.addEventListener("abort", () => resolve(false)));
  const checkpoint = new EventsCheckpoint({ newestOfEvents: () => Promise.resolve("100") }, hung);
  await checkpoint.follow(collector, term.signal, 0);
  const followed = checkpoint.follow(collector, term.signal, SETTLED_MS);
  term.abort();
  await followed;
  expect(checkpoint.version).toBe("");
});

test("a collector that watches no events any more is started anew at the checkpoint it came to, once the API server has events again", async () => {
  const { checkpoint, is, collector } = world();
  await checkpoint.begin({ [ANNOTATION]: "99" }, NEVER);
  await checkpoint.follow(collector, NEVER, 0);
  Object.assign(is, { ended: true, newest: "" });
  await expect(checkpoint.follow(collector, NEVER, SETTLED_MS)).rejects.toThrow("away");
  expect([checkpoint.version, is.starts]).toEqual(["99", 0]);
  is.newest = "200";
  await checkpoint.follow(collector, NEVER, 2 * SETTLED_MS);
  expect([checkpoint.version, is.starts]).toEqual(["99", 1]);
});
