// Enrolled clusters and hosts over HTTP, on both engines of the relational store: heartbeats, remote configuration, administration.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  accountsApp,
  brief,
  directKey,
  installToken,
  listedCluster,
  makeOrg,
  registerCluster,
  registerHost,
  tryKey,
} from "../../../test/fixtures/accounts-app.ts";
import type { AccountsApp, CallOptions, Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";

const HOUR_MS = 60 * 60_000;
const NO_CONFIG = { in_force: null, error: null };

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let org: Org;
  let other: Org;

  beforeAll(async () => {
    backend = await accountsApp(store.database, { env: { JWT_TTL: "30d" } });
    org = await makeOrg(backend);
    other = await makeOrg(backend);
  });
  afterAll(async () => await backend?.[Symbol.asyncDispose]());

  const ingest = (key: string) => tryKey(backend, key);
  const clusterOf = (id: string) => listedCluster(backend, org, id);

  describe("heartbeats", () => {
    test("a cluster is online while its last heartbeat is younger than three of its intervals", async () => {
      const cluster = await registerCluster(backend, org.token);
      expect(await clusterOf(cluster.cluster_id)).toMatchObject({ online: false, last_heartbeat: null, nodes: [] });
      for (const [body, intervalMs] of [
        [undefined, 30_000],
        [{ interval_s: 10 }, 10_000],
      ] as const) {
        const beat = await backend.call("POST", "/heartbeat", { key: cluster.api_key, body });
        expect([beat.statusCode, beat.body]).toEqual([204, ""]);
        backend.clock.ms += 3 * intervalMs - 1;
        expect(await clusterOf(cluster.cluster_id)).toMatchObject({ online: true });
        backend.clock.ms += 1;
        expect(await clusterOf(cluster.cluster_id)).toMatchObject({ online: false });
      }
    });

    test("show each node with its collector; a node that is silent for a day is replaced by a new one", async () => {
      const cluster = await registerCluster(backend, org.token);
      const beat = (node: string, change: object = {}) =>
        backend.call("POST", "/heartbeat", { key: cluster.api_key, body: { node, agent_version: "1.2.3", ...change } });
      await beat("node-b", { collector: { state: "running", restarts: 2, last_error: "exit 1" } });
      await beat("node-a");
      await beat("node-b", { collector: { state: "running", restarts: 3 } });
      const { nodes } = await clusterOf(cluster.cluster_id);
      expect(nodes).toEqual([
        { name: "node-a", online: true, agent_version: "1.2.3", last_heartbeat: expect.any(String), collector: null, config: NO_CONFIG },
        {
          name: "node-b",
          online: true,
          agent_version: "1.2.3",
          last_heartbeat: expect.any(String),
          collector: { state: "running", restarts: 3 },
          config: NO_CONFIG,
        },
      ]);
      backend.clock.ms += 25 * HOUR_MS;
      await beat("node-c");
      expect((await clusterOf(cluster.cluster_id)).nodes.map((node: { name: string }) => node.name)).toEqual(["node-c"]);
    });

    test("roll out a cluster's configuration to a growing share of its nodes, and list both versions", async () => {
      const cluster = await registerCluster(backend, org.token);
      const path = `/api/clusters/${cluster.cluster_id}/config`;
      const write = async (config: object, percent?: number) =>
        (await backend.call("PUT", path, { bearer: org.token, body: { config, percent } })).json();
      const read = (node: string, headers = {}) => backend.call("GET", `${path}?node=${node}`, { key: cluster.api_key, headers });
      const names = Array.from({ length: 200 }, (_, i) => `node-${i}`);
      const nodesWith = async (version: string): Promise<string[]> => {
        const answers = await Promise.all(names.map(async (name) => [name, (await read(name)).json().version] as const));
        return answers.filter(([, found]) => found === version).map(([name]) => name);
      };
      expect((await read("node-1")).json()).toEqual({ version: "0", config: {} });
      expect(await write({ log_level: "warn" })).toEqual({ version: "1", percent: 100, config: { log_level: "warn" } });
      expect(await write({ log_level: "debug", intervals: { metrics: "15s" } }, 10)).toMatchObject({ version: "2", percent: 10 });
      const canary = await nodesWith("2");
      expect(canary.length).toBeGreaterThan(5);
      expect(canary.length).toBeLessThan(40);
      expect(await nodesWith("1")).toHaveLength(200 - canary.length);
      expect((await read(canary[0] ?? "", { "if-none-match": '"2"' })).statusCode).toBe(304);
      expect(await write({ intervals: { metrics: "15s" }, log_level: "debug" }, 50)).toMatchObject({ version: "2", percent: 50 });
      expect(await nodesWith("2")).toEqual(expect.arrayContaining(canary));
      expect(await write({ log_level: "info" }, 1)).toMatchObject({ version: "3" });
      expect((await nodesWith("1")).length, "the second was never on all nodes").toBeGreaterThan(180);
      const config = { version: "1", error: "version 3: signals: traces is turned off here (SIGNALS)" };
      await backend.call("POST", "/heartbeat", { key: cluster.api_key, body: { node: "node-1", config } });
      expect(await clusterOf(cluster.cluster_id)).toMatchObject({
        config: { version: "3", percent: 1, config: { log_level: "info" } },
        nodes: [{ name: "node-1", config: { in_force: "1", error: config.error } }],
      });
    });

    test("that arrive together are answered once stored, separately for two clusters", async () => {
      const [cluster, other] = [await registerCluster(backend, org.token), await registerCluster(backend, org.token)];
      const beat = (key: string, node: string) =>
        backend.call("POST", "/heartbeat", { key, body: { node, collector: { state: key === other.api_key ? "other" : "one" } } });
      const beats = Array.from({ length: 120 }, (_, at) => beat(cluster.api_key, `node-${at % 30}`));
      beats.push(...Array.from({ length: 20 }, (_, at) => beat(other.api_key, `node-${at}`)));
      expect(new Set((await Promise.all(beats)).map((answer) => answer.statusCode))).toEqual(new Set([204]));
      const statesOf = async (id: string) =>
        (await clusterOf(id)).nodes.map((node: { collector: { state: string } }) => node.collector.state);
      expect(await statesOf(cluster.cluster_id)).toEqual(Array.from({ length: 30 }, () => "one"));
      expect(await statesOf(other.cluster_id)).toEqual(Array.from({ length: 20 }, () => "other"));
    });

    test("accept and limit long texts, odd numbers, unknown fields and NUL, without marking the agent as offline", async () => {
      const cluster = await registerCluster(backend, org.token);
      const body = {
        node: "n\0".repeat(500),
        interval_s: -5,
        future: true,
        collector: { state: "x".repeat(9000), last_error: "e".repeat(9000), more: 1 },
      };
      expect((await backend.call("POST", "/heartbeat", { key: cluster.api_key, body })).statusCode).toBe(204);
      const { nodes } = await clusterOf(cluster.cluster_id);
      expect([nodes[0].name.length, nodes[0].collector.state.length, nodes[0].collector.last_error.length]).toEqual([253, 50, 1000]);
      const wrong = await backend.call("POST", "/heartbeat", { key: cluster.api_key, body: { node: 7 } });
      expect(brief(wrong)).toEqual([400, "invalid_field"]);
      expect(wrong.headers["x-key-age-days"]).toBe("0");
    });
  });

  describe("remote configuration of a host", () => {
    let host: { agent_id: string; api_key: string };
    const put = (body: unknown, bearer = org.token, id = host.agent_id) =>
      backend.call("PUT", `/api/v1/agents/${id}/config`, { bearer, body: body as object });
    const get = (headers: Record<string, string> = {}, id = host.agent_id, options: CallOptions = { key: host.api_key }) =>
      backend.call("GET", `/api/v1/agents/${id}/config`, { ...options, headers });

    beforeAll(async () => {
      host = await registerHost(backend, org.token);
    });

    test("is empty at first, and its version changes with every write; 304 if the ETag matches", async () => {
      expect((await get()).json()).toEqual({ version: "0", config: {} });
      const config = {
        intervals: { metrics: "15s", heartbeat: "1m" },
        log_paths: ["/var/log/**/*.log"],
        signals: ["logs", "metrics"],
        log_level: "warn",
      };
      expect((await put(config)).json()).toEqual({ version: "1", config });
      const answer = await get();
      expect([answer.json(), answer.headers["etag"]]).toEqual([{ version: "1", config }, '"1"']);
      for (const tag of ['"1"', 'W/"1"', '"0", "1"', "*"]) {
        const unchanged = await get({ "if-none-match": tag });
        expect([unchanged.statusCode, unchanged.body, unchanged.headers["etag"], unchanged.headers["x-key-age-days"]]).toEqual([
          304,
          "",
          '"1"',
          "0",
        ]);
      }
      expect((await get({ "if-none-match": '"0"' })).statusCode).toBe(200);
      await put({});
      expect((await get({ "if-none-match": '"1"' })).json()).toEqual({ version: "2", config: {} });
    });

    test.each([
      ["an unknown field", { exporters: {} }],
      ["the endpoint", { backend_url: "https://elsewhere" }],
      ["an unknown interval", { intervals: { logs: "1s" } }],
      ["an interval without a unit", { intervals: { metrics: "30" } }],
      ["an interval of nothing", { intervals: { metrics: "0s" } }],
      ["a number as an interval", { intervals: { metrics: 30 } }],
      ["a relative path", { log_paths: ["var/log/x.log"] }],
      ["a path with a newline", { log_paths: ["/var/log/a\n/etc/shadow"] }],
      ["a path that is a text", { log_paths: "/var/log/x.log" }],
      ["too many paths", { log_paths: Array.from({ length: 101 }, (_, index) => `/var/log/${index}`) }],
      ["an unknown signal", { signals: ["profiles"] }],
      ["an unknown level", { log_level: "trace" }],
      ["null", null],
      ["a list", []],
    ])("rejects %s when it is written", async (_what, body) => {
      const before = (await get()).body;
      const answer = await backend.call("PUT", `/api/v1/agents/${host.agent_id}/config`, {
        bearer: org.token,
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      expect([answer.statusCode, answer.json().error]).toEqual([400, "invalid_field"]);
      expect((await get()).body).toBe(before);
    });

    test("lists the version in effect on the host, and why a newer one was rejected", async () => {
      await backend.call("POST", "/ingest/agents/heartbeat", {
        key: host.api_key,
        body: { agent_version: "2.0.0", config: { version: "1", error: "log_paths: /etc/shadow is not allowed here" } },
      });
      const listed = (await backend.call("GET", "/api/v1/agents", { bearer: org.token })).json();
      expect(listed.find((row: { agent_id: string }) => row.agent_id === host.agent_id)).toMatchObject({
        hostname: "web-1",
        online: true,
        agent_version: "2.0.0",
        config: { in_force: "1", error: "log_paths: /etc/shadow is not allowed here" },
      });
    });
  });

  describe("administration", () => {
    test("removing a cluster, a host or a key rejects its key immediately; another organisation's is 404", async () => {
      const [cluster, host, key] = [
        await registerCluster(backend, org.token),
        await registerHost(backend, org.token),
        await directKey(backend, org.token),
      ];
      for (const [url, rawKey] of [
        [`/api/clusters/${cluster.cluster_id}`, cluster.api_key],
        [`/api/v1/agents/${host.agent_id}`, host.api_key],
        [`/api/keys/${key.key_id}`, key.api_key],
      ] as const) {
        expect(await ingest(rawKey)).toBe(204);
        expect(brief(await backend.call("DELETE", url, { bearer: other.token }))).toEqual([404, "not_found"]);
        expect(await ingest(rawKey)).toBe(204);
        expect((await backend.call("DELETE", url, { bearer: org.token })).statusCode).toBe(204);
        expect(await ingest(rawKey)).toBe("revoked_key");
      }
    });

    test("a cluster's key cannot be revoked through /api/keys, and is not listed there", async () => {
      const cluster = await registerCluster(backend, org.token);
      const key = await directKey(backend, org.token, "loader");
      const listed = (await backend.call("GET", "/api/keys", { bearer: org.token })).json();
      expect(listed.find((row: { key_id: string }) => row.key_id === key.key_id)).toMatchObject({
        key_id: key.key_id,
        name: "loader",
        first_used_at: null,
      });
      expect(listed.every((row: { name: string }) => row.name !== "prod")).toBe(true);
      expect(brief(await backend.call("DELETE", `/api/keys/${cluster.cluster_id}`, { bearer: org.token }))).toEqual([404, "not_found"]);
      expect(await ingest(cluster.api_key)).toBe(204);
      expect((await backend.call("GET", "/api/keys", { bearer: other.token })).json()).toEqual([]);
    });

    test("returns secrets once: no list contains a token or a key", async () => {
      const token = await installToken(backend, org.token);
      const key = await directKey(backend, org.token);
      for (const url of ["/api/install-tokens", "/api/keys", "/api/clusters", "/api/v1/agents"]) {
        const { body } = await backend.call("GET", url, { bearer: org.token });
        expect(body).not.toContain(token);
        expect(body).not.toContain(key.api_key);
        expect(body).not.toMatch(/hash|cipher/);
      }
    });

    test.each([["0h"], ["24"], ["-1h"], ["1y"], ["366d"], [3600]])("rejects an install token's ttl %s", async (ttl) => {
      const answer = await backend.call("POST", "/api/install-tokens", { bearer: org.token, body: { ttl } });
      expect(brief(answer)).toEqual([400, "invalid_field"]);
    });
  });
});
