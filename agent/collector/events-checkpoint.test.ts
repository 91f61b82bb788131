import { expect, test } from "vitest";
import { type EventsCollector, EventsPlace, SETTLED_MS } from "./events-checkpoint.ts";

const NEVER = new AbortController().signal;
const ANNOTATION = "atherops.io/events-delivered";

function world(): {
  place: EventsPlace;
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
    startAnew: () => void is.starts++,
  };
  return { place: new EventsPlace(api, () => Promise.resolve(is.delivered)), is, collector };
}

test("a place is passed on when all that happened before it has left the collector, some time after", async () => {
  const { place, is, collector } = world();
  expect([place.version, place.annotations]).toEqual(["", {}]);
  await place.follow(collector, NEVER, 0);
  is.newest = "200";
  await place.follow(collector, NEVER, SETTLED_MS - 1);
  expect(place.version).toBe("");
  is.delivered = false;
  await place.follow(collector, NEVER, SETTLED_MS + 1);
  expect(place.version).toBe("");
  is.delivered = true;
  await place.follow(collector, NEVER, SETTLED_MS + 2);
  expect([place.version, place.annotations]).toEqual(["100", { [ANNOTATION]: "100" }]);
  await place.follow(collector, NEVER, 2 * SETTLED_MS + 2);
  expect(place.version).toBe("200");
});

test("what another collector has read is no word of the one that runs", async () => {
  const { place, is, collector } = world();
  await place.follow(collector, NEVER, 0);
  // It crashed, and the next one is not there yet, or is and has read nothing.
  is.pid = null;
  await place.follow(collector, NEVER, SETTLED_MS);
  is.pid = 2;
  await place.follow(collector, NEVER, SETTLED_MS + 1);
  expect(place.version).toBe("");
  is.pid = 3;
  await place.follow(collector, NEVER, 3 * SETTLED_MS);
  expect(place.version).toBe("");
});

test("the next one goes on where the last one came to", async () => {
  const { place } = world();
  await place.begin({ [ANNOTATION]: "99" }, NEVER);
  expect(place.version).toBe("99");
});

test.each([
  ["a version of a store that has been put back since", "101"],
  ["no version", "x1"],
  ["too long a number", "1".repeat(20)],
  ["nothing", ""],
])(
  "%s is not gone on from, but from now: a collector without a place asks for all events, and none follow where that fails",
  async (_what, version) => {
    const { place, is } = world();
    await place.begin({ [ANNOTATION]: version }, NEVER);
    expect(place.version).toBe("100");
    is.newest = "";
    await place.begin({ [ANNOTATION]: "x1" }, NEVER);
    expect(place.version).toBe("");
  },
);

test("it is gone on from where the API server does not say how far it is, and stays where it then stays away", async () => {
  const { place, is, collector } = world();
  is.newest = "";
  await place.begin({ [ANNOTATION]: "99" }, NEVER);
  expect(place.version).toBe("99");
  await expect(place.follow(collector, NEVER, 0)).rejects.toThrow("away");
  expect(place.annotations).toEqual({ [ANNOTATION]: "99" });
});

test("at the end of a term nobody waits for the word of a collector that hangs: it is to be ended in time", async () => {
  const { collector } = world();
  const term = new AbortController();
  const hung = (_url: string, signal: AbortSignal): Promise<boolean> =>
    new Promise((resolve) => signal.addEventListener("abort", () => resolve(false)));
  const place = new EventsPlace({ newestOfEvents: () => Promise.resolve("100") }, hung);
  await place.follow(collector, term.signal, 0);
  const followed = place.follow(collector, term.signal, SETTLED_MS);
  term.abort();
  await followed;
  expect(place.version).toBe("");
});

test("a collector that watches no events any more is started anew at the place it came to, once the API server has events again", async () => {
  const { place, is, collector } = world();
  await place.begin({ [ANNOTATION]: "99" }, NEVER);
  await place.follow(collector, NEVER, 0);
  Object.assign(is, { ended: true, newest: "" });
  await expect(place.follow(collector, NEVER, SETTLED_MS)).rejects.toThrow("away");
  expect([place.version, is.starts]).toEqual(["99", 0]);
  is.newest = "200";
  await place.follow(collector, NEVER, 2 * SETTLED_MS);
  expect([place.version, is.starts]).toEqual(["99", 1]);
});
