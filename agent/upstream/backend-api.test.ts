import { pino } from "pino";
import { expect, test } from "vitest";
import { createBackendApi } from "./backend-api.ts";
import { BackendClock } from "./clock.ts";

const KEY = { id: "a", apiKey: "ak_x", keyCreatedAt: "" };

/** A backend that answers each request alike. */
function answering(status: number, body: string): ReturnType<typeof createBackendApi> {
  const upstream = { request: () => Promise.resolve({ status, headers: {}, body }), [Symbol.asyncDispose]: () => Promise.resolve() };
  return createBackendApi({ upstream, clock: new BackendClock(pino({ level: "silent" })) });
}

test.each([200, 202, 302])("a page of a proxy with status %d is neither a heartbeat's answer nor a configuration", async (status) => {
  const page = answering(status, "<html>Please log in</html>");
  await expect(page.heartbeat("/heartbeat", KEY, {})).rejects.toMatchObject({ code: "not_our_backend" });
  await expect(page.remoteConfig(KEY, undefined, undefined)).rejects.toMatchObject({ code: "not_our_backend" });
});

test("a heartbeat succeeds with 204, and 304 is no new configuration", async () => {
  await expect(answering(204, "").heartbeat("/heartbeat", KEY, {})).resolves.toEqual({});
  await expect(answering(304, "").remoteConfig(KEY, undefined, "etag")).resolves.toMatchObject({ body: undefined });
});
