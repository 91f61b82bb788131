import { pino } from "pino";
import { expect, test } from "vitest";
import { createBackendApi } from "./backend-api.ts";
import { BackendClock } from "./clock.ts";
import { createUpstream } from "./pool.ts";

const KEY = { id: "a", apiKey: "ak_x", keyCreatedAt: "" };

const clock = new BackendClock(pino({ level: "silent" }));

/** A backend that answers each request alike. */
function answering(status: number, body: string, headers = {}): ReturnType<typeof createBackendApi> {
  const upstream = { request: () => Promise.resolve({ status, headers, body }), [Symbol.asyncDispose]: () => Promise.resolve() };
  return createBackendApi({ upstream, clock });
}

test.each([200, 202, 302])("a page of a proxy with status %d is neither a heartbeat's answer nor a configuration", async (status) => {
  const page = answering(status, "<html>Please log in</html>");
  await expect(page.heartbeat("/heartbeat", KEY, {})).rejects.toMatchObject({ code: "not_our_backend" });
  await expect(page.remoteConfig(KEY, undefined, undefined)).rejects.toMatchObject({ code: "not_our_backend" });
});

test("a redirect says to which server, but not with which path", async () => {
  const moved = answering(302, "", { location: "https://login.example:8443/sso?token=secret" });
  await expect(moved.heartbeat("/heartbeat", KEY, {})).rejects.toThrow(
    "/heartbeat answered 302 (redirect to https://login.example:8443) without an error of the backend",
  );
  await expect(answering(308, "", { location: "/heartbeat/" }).heartbeat("/heartbeat", KEY, {})).rejects.toThrow("answered 308 without");
});

test("a token that cannot be sent counts as refused by the backend, which has an advice, and not as an outage", async () => {
  const backend = createBackendApi({ upstream: createUpstream({ backendUrl: "http://127.0.0.1:1" }), clock });
  const register = (token: string) => backend.registerHost(token, "key", { hostname: "h", machine_id: "m", agent_version: "1" });
  for (const token of ["it\u2013copied", "it_two\nlines", "it_nul\0"])
    await expect(register(token)).rejects.toMatchObject({ code: "invalid_install_token", message: expect.not.stringContaining("it") });
  await expect(register("it_x")).rejects.toMatchObject({ code: "unreachable" });
});

test("a heartbeat succeeds with 204, and 304 is no new configuration", async () => {
  await expect(answering(204, "").heartbeat("/heartbeat", KEY, {})).resolves.toEqual({});
  await expect(answering(304, "").remoteConfig(KEY, undefined, "etag")).resolves.toMatchObject({ body: undefined });
});
