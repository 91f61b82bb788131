// What load balancers and probes of a cluster see of a backend that starts and ends: it is alive before its engines are open, and takes new
// connections, over IPv4 and IPv6, for a while after SIGTERM. Clients with kept connections have left them before they close.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { adminPassword, backendPlace, login } from "../fixtures/backend-process.ts";
import { call, eventually, temporaryFolder, TestProcess } from "../fixtures/processes.ts";

test("a backend without hosts in its addresses is alive before it is ready, and serves both families until DRAIN_DELAY ends", async () => {
  using folder = temporaryFolder();
  const place = await backendPlace(folder.path, { DRAIN_DELAY: "1h" });
  const port = new URL(place.apiUrl).port;
  const healthPort = new URL(place.healthUrl).port;
  Object.assign(place.env, { API_LISTEN: `:${port}`, HEALTH_LISTEN: `:${healthPort}` });
  await using backend = new TestProcess(["backend/main.ts", "serve"], place.env, place.logFile);
  const seen: string[] = [];
  await eventually("ready", async () => {
    const { status, json } = await call("GET", `http://[::1]:${healthPort}/readyz`);
    seen.push(`${status} ${json.status}`);
    return status === 200;
  });
  expect([...new Set(seen)]).toEqual(["503 starting", "200 ready"]);
  const hosts = ["127.0.0.1", "[::1]"];
  const token = await login(`http://[::1]:${port}`, "admin@localhost", adminPassword(place));
  const whoIs = (host: string) => call("GET", `http://${host}:${port}/api/users`, { bearer: token });
  for (const host of hosts) expect((await whoIs(host)).headers.get("connection")).toBe("keep-alive");

  const ended = backend.end("SIGTERM");
  await eventually("draining", async () => (await call("GET", `${place.healthUrl}/readyz`)).json.status === "draining");
  for (const host of hosts) {
    const { status, headers } = await whoIs(host);
    expect([status, headers.get("connection")]).toEqual([200, "close"]);
    expect((await call("GET", `http://${host}:${port}/api/users`)).headers.get("connection")).toBe("close");
  }
  // A second signal does not wait.
  void backend.end("SIGTERM");
  expect(await ended).toBe(0);
});

test("a backend is alive while an engine does not become ready, and ends at SIGTERM", async () => {
  using folder = temporaryFolder();
  const engine = join(folder.path, "engine");
  // Listens nowhere, and ends with the backend.
  writeFileSync(engine, "#!/bin/sh\nwhile kill -0 $PPID; do sleep 0.2; done\n", { mode: 0o755 });
  const place = await backendPlace(folder.path, { VICTORIA_METRICS_PATH: engine });
  await using backend = new TestProcess(["backend/main.ts", "serve"], place.env, place.logFile);
  await eventually("alive", async () => (await call("GET", `${place.healthUrl}/healthz`)).status === 200);
  const { status, json } = await call("GET", `${place.healthUrl}/readyz`);
  expect([status, json.status]).toEqual([503, "starting"]);
  expect(await backend.end("SIGTERM")).toBe(0);
});
