import { pino } from "pino";
import { expect, test, vi } from "vitest";
import { BackendError } from "../upstream/backend-api.ts";
import { RefusedKey } from "../upstream/refused-key.ts";
import { HeartbeatLoop } from "./heartbeat.ts";
import { stub } from "../../test/fixtures/stub.ts";

const PATIENTLY = { timeout: 50_000 };
const later = new BackendError("over_quota", "faster than they are kept", { status: 429, retryAfterS: 5 });

function loop(answer: () => BackendError | undefined, refusedKey?: RefusedKey) {
  const warnings: unknown[] = [];
  const log = pino({ level: "warn" }, { write: (line) => void warnings.push(JSON.parse(line)) });
  const heartbeat = vi.fn(() => {
    const error = answer();
    return error ? Promise.reject(error) : Promise.resolve({ body: undefined, keyAgeDays: 0 });
  });
  const identity = {
    current: () => ({ id: "id", apiKey: "ak_1" }),
    refresh: () => Promise.resolve(undefined),
    noteKeyAge: () => undefined,
  };
  const options = { path: "/heartbeat", identity, backend: { heartbeat }, intervalMs: () => 20, body: () => ({}), refusedKey, log };
  return { beating: new HeartbeatLoop(stub<ConstructorParameters<typeof HeartbeatLoop>[0]>(options)), heartbeat, warnings };
}

test("a 429 for a heartbeat is no outage: no warning, no error in the status, and the next one is sent", async () => {
  let beats = 0;
  const { beating, heartbeat, warnings } = loop(() => (++beats % 3 === 0 ? undefined : later));
  await using _ = beating;
  await vi.waitFor(() => expect(heartbeat.mock.calls.length).toBeGreaterThan(9), PATIENTLY);
  expect([beating.status(), warnings]).toEqual([{ lastSuccess: expect.any(String), lastError: null }, []]);
});

test("429 for longer than the node's timeout is logged once, until the next success", async () => {
  let full = true;
  const { beating, heartbeat, warnings } = loop(() => (full ? later : undefined));
  await using _ = beating;
  await vi.waitFor(() => expect(heartbeat.mock.calls.length).toBeGreaterThan(6), PATIENTLY);
  expect([beating.status().lastError, warnings.length]).toEqual([later.message, 1]);
  full = false;
  await vi.waitFor(() => expect(beating.status()).toEqual({ lastSuccess: expect.any(String), lastError: null }), PATIENTLY);
});

test("backs off from a key that is rejected permanently, and logs it once", async () => {
  const refused = new BackendError("revoked_key", "the cluster was removed", { status: 401 });
  let nowMs = 0;
  const { beating, heartbeat, warnings } = loop(() => refused, new RefusedKey(() => (nowMs += 1000)));
  await using _ = beating;
  // A clock that advances a second with each question: without the pause, each question is a request.
  await vi.waitFor(() => expect(nowMs).toBeGreaterThan(30_000), PATIENTLY);
  expect(heartbeat.mock.calls.length).toBeLessThan(15);
  expect(warnings).toHaveLength(1);
});
