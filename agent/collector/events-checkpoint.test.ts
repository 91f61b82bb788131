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

test("publishes a checkpoint only after all earlier events have left the collector, and after a delay", async () => {
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
  await checkpoint.follow(collector, NEVER, 2 * SETTLED_MS + 1);
  expect(checkpoint.version, "the delay counts from the last checkpoint").toBe("100");
  await checkpoint.follow(collector, NEVER, 2 * SETTLED_MS + 2);
  expect(checkpoint.version).toBe("200");
});

test("ignores what another collector has read", async () => {
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

test("the next collector continues from the last checkpoint", async () => {
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
  "starts from the present for %s: without a checkpoint, a collector would request all events, or none if that fails",
  async (_what, version) => {
    const { checkpoint, is } = world();
    await checkpoint.begin({ [ANNOTATION]: version }, NEVER);
    expect(checkpoint.version).toBe("100");
    is.newest = "";
    await checkpoint.begin({ [ANNOTATION]: "x1" }, NEVER);
    expect(checkpoint.version).toBe("");
  },
);

test("continues from the checkpoint if the API server does not return its version, and keeps it while the server is away", async () => {
  const { checkpoint, is, collector } = world();
  is.newest = "";
  await checkpoint.begin({ [ANNOTATION]: "99" }, NEVER);
  expect(checkpoint.version).toBe("99");
  await expect(checkpoint.follow(collector, NEVER, 0)).rejects.toThrow("away");
  expect(checkpoint.annotations).toEqual({ [ANNOTATION]: "99" });
});

test("the end of a term does not wait for a collector that hangs, so that it ends in time", async () => {
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

test("restarts a collector whose event watch ended at its checkpoint, once the API server returns events again", async () => {
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
