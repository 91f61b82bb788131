// Registration over HTTP, on both engines of the relational store: install tokens, repeated and lost answers, second installations.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  accountsApp,
  brief,
  installToken,
  listedCluster,
  makeOrg,
  registerCluster,
  registerHost,
  tryKey,
} from "../../../test/fixtures/accounts-app.ts";
import type { AccountsApp, Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const FIRST_TOKEN = `it_${"f".repeat(43)}`;

const clusterBody = (change: object = {}) => ({ cluster_name: "prod", cluster_uid: randomUUID(), agent_version: "1.0.0", ...change });

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let org: Org;
  let other: Org;

  beforeAll(async () => {
    backend = await accountsApp(store.database, { env: { JWT_TTL: "30d", FIRST_INSTALL_TOKEN: FIRST_TOKEN } });
    org = await makeOrg(backend);
    other = await makeOrg(backend);
  });
  afterAll(async () => await backend?.[Symbol.asyncDispose]());

  const register = (token: string, idempotency: string | undefined, body: object, path = "/api/clusters/register") =>
    backend.call("POST", path, { bearer: token, body, headers: idempotency === undefined ? {} : { "idempotency-key": idempotency } });
  const registerAsHost = (token: string, idempotency: string, body: object) =>
    register(token, idempotency, body, "/api/v1/agents/register");
  const ingest = (key: string) => tryKey(backend, key);
  const clusterOf = (id: string) => listedCluster(backend, org, id);

  describe("registration", () => {
    test("the token of the first start enrols one cluster of the first organisation within 24 hours", async () => {
      const first = await backend.login();
      const [token] = (await backend.call("GET", "/api/install-tokens", { bearer: first })).json();
      expect(Date.parse(token.expires_at)).toBe(backend.clock.ms + 24 * HOUR_MS);
      const answer = await register(FIRST_TOKEN, randomUUID(), clusterBody());
      expect(answer.statusCode).toBe(201);
      const clusters = (await backend.call("GET", "/api/clusters", { bearer: first })).json();
      expect(clusters).toMatchObject([{ cluster_id: answer.json().cluster_id }]);
      expect(brief(await register(FIRST_TOKEN, randomUUID(), clusterBody()))).toEqual([401, "invalid_install_token"]);
    });

    test("an install token returns a key that signs immediately, in the organisation of the token", async () => {
      const answer = await register(await installToken(backend, org.token), randomUUID(), clusterBody());
      expect(answer.statusCode).toBe(201);
      expect(answer.json()).toEqual({
        cluster_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        api_key: expect.stringMatching(/^ak_[\w-]{43}$/),
        key_created_at: new Date(backend.clock.ms).toISOString(),
      });
      expect(answer.headers["x-org-id"]).toBe(org.orgId);
      expect((await backend.call("POST", "/heartbeat", { key: answer.json().api_key })).headers["x-org-id"]).toBe(org.orgId);
      expect(await ingest(answer.json().api_key)).toBe(204);
      const list = (bearer: string) => backend.call("GET", "/api/clusters", { bearer });
      const ids = (await list(org.token)).json().map((cluster: { cluster_id: string }) => cluster.cluster_id);
      expect(ids).toContain(answer.json().cluster_id);
      expect((await list(other.token)).json()).toEqual([]);
    });

    store.once("validates the token before the Idempotency-Key, and that before the body", async () => {
      const token = await installToken(backend, org.token);
      expect(brief(await register("it_nobody", undefined, {}))).toEqual([401, "invalid_install_token"]);
      expect(brief(await register(token, undefined, {}))).toEqual([400, "missing_idempotency_key"]);
      expect((await register(token, randomUUID(), { cluster_name: "a" })).json()).toEqual({
        error: "invalid_field",
        message: "cluster_uid: required",
      });
      expect((await register(token, randomUUID(), clusterBody({ org_id: other.orgId }))).json().message).toBe("org_id: unknown field");
      expect(brief(await register(token, randomUUID(), clusterBody({ cluster_name: "a\nb" })))).toEqual([400, "invalid_field"]);
      expect((await register(token, randomUUID(), clusterBody())).statusCode).toBe(201);
    });

    test("enrols one of ten agents with one token concurrently", async () => {
      const token = await installToken(backend, org.token);
      const answers = await Promise.all(Array.from({ length: 10 }, () => register(token, randomUUID(), clusterBody())));
      expect(answers.map((answer) => answer.statusCode).sort((one, two) => one - two)).toEqual([
        201,
        ...Array.from({ length: 9 }, () => 401),
      ]);
    });

    test("rejects an expired token to the second, and a revoked one immediately", async () => {
      const token = await installToken(backend, org.token, "10m");
      backend.clock.ms += 10 * MINUTE_MS;
      expect((await register(token, randomUUID(), clusterBody())).json().message).toContain("expired");
      backend.clock.ms -= 1;
      expect((await register(token, randomUUID(), clusterBody())).statusCode).toBe(201);
      const minted = (await backend.call("POST", "/api/install-tokens", { bearer: org.token, body: {} })).json();
      expect(Date.parse(minted.expires_at)).toBe(backend.clock.ms + 24 * HOUR_MS);
      expect((await backend.call("DELETE", `/api/install-tokens/${minted.id}`, { bearer: org.token })).statusCode).toBe(204);
      expect(brief(await register(minted.token, randomUUID(), clusterBody()))).toEqual([401, "invalid_install_token"]);
    });

    test("returns the same key again after a lost response, until that key has signed a request", async () => {
      const token = await installToken(backend, org.token);
      const idempotency = randomUUID();
      const body = clusterBody();
      const first = await register(token, idempotency, body);
      const again = await register(token, idempotency.toUpperCase(), body);
      expect([again.statusCode, again.body]).toEqual([201, first.body]);
      expect(
        brief(await register(token, idempotency, { hostname: "h", machine_id: "m", agent_version: "1" }, "/api/v1/agents/register")),
      ).toEqual([422, "idempotency_key_reused"]);
      expect(await ingest(first.json().api_key)).toBe(204);
      expect(brief(await register(token, idempotency, body))).toEqual([401, "invalid_install_token"]);
    });

    test("returns a lost response for 24 hours after the token expired, but not once the key is revoked", async () => {
      const [early, late] = [await installToken(backend, org.token, "5m"), await installToken(backend, org.token, "5m")];
      const [idempotency, body] = [randomUUID(), clusterBody()];
      const first = await register(early, idempotency, body);
      const lateBody = clusterBody();
      await register(late, idempotency, lateBody);
      backend.clock.ms += 24 * HOUR_MS;
      expect((await register(early, idempotency, body)).body).toBe(first.body);
      backend.clock.ms += 1;
      expect(brief(await register(early, idempotency, body))).toEqual([401, "invalid_install_token"]);
      backend.clock.ms -= HOUR_MS;
      const cluster = (await register(late, idempotency, lateBody)).json().cluster_id;
      expect((await backend.call("DELETE", `/api/clusters/${cluster}`, { bearer: org.token })).statusCode).toBe(204);
      expect(brief(await register(late, idempotency, lateBody))).toEqual([401, "invalid_install_token"]);
    });

    test("keeps the cluster_id of a cluster_uid that the organisation has; the older key ends after exactly 5 minutes", async () => {
      const cluster_uid = randomUUID();
      const first = await registerCluster(backend, org.token, { cluster_uid });
      const foreign = await registerCluster(backend, other.token, { cluster_uid });
      expect(foreign.cluster_id).not.toBe(first.cluster_id);
      const second = await registerCluster(backend, org.token, { cluster_uid, cluster_name: "renamed" });
      expect(second.cluster_id).toBe(first.cluster_id);
      backend.clock.ms += 5 * MINUTE_MS - 1;
      expect(await ingest(first.api_key)).toBe(204);
      backend.clock.ms += 1;
      expect(await ingest(first.api_key)).toBe("revoked_key");
      expect(await ingest(second.api_key)).toBe(204);
      expect(await ingest(foreign.api_key)).toBe(204);
    });

    test("rejects a second installation while the first is alive, and accepts its token when the first is gone", async () => {
      backend.clock.ms += HOUR_MS;
      const body = clusterBody({ cluster_name: "north", installation: "one/secret" });
      const first = await registerCluster(backend, org.token, body);
      const beat = () => backend.call("POST", "/heartbeat", { key: first.api_key, body: { interval_s: 20 } });
      const [token, idempotency] = [await installToken(backend, org.token), randomUUID()];
      const second = () => register(token, idempotency, { ...body, cluster_name: "second", installation: "two/secret" });
      // Enrolled a moment ago, its first heartbeat is still to come.
      expect(brief(await second())).toEqual([409, "cluster_in_use"]);
      await beat();
      backend.clock.ms += 60_000 - 1;
      const refused = await second();
      expect([...brief(refused), refused.headers["retry-after"]]).toEqual([409, "cluster_in_use", "20"]);
      expect(refused.json().message).toContain("(one/secret)");
      expect(await clusterOf(first.cluster_id)).toMatchObject({ name: "north" });
      backend.clock.ms += 1;
      const taken = await second();
      expect([taken.statusCode, taken.json().cluster_id]).toEqual([201, first.cluster_id]);
      expect(await clusterOf(first.cluster_id)).toMatchObject({ name: "second" });
      backend.clock.ms += 5 * MINUTE_MS;
      expect(await ingest(first.api_key)).toBe("revoked_key");
    });

    test("the first of two installations that register concurrently gets the cluster", async () => {
      backend.clock.ms += HOUR_MS;
      const cluster_uid = randomUUID();
      const tokens = await Promise.all(["one", "two", "three"].map(() => installToken(backend, org.token)));
      const answers = await Promise.all(
        tokens.map((token, index) => register(token, randomUUID(), clusterBody({ cluster_uid, installation: `${index}/secret` }))),
      );
      expect(answers.map(({ statusCode }) => statusCode).sort((one, two) => one - two)).toEqual([201, 409, 409]);
    });

    test("accepts the same installation, and one without a name, again at any time", async () => {
      backend.clock.ms += HOUR_MS;
      const body = clusterBody({ installation: "one/secret" });
      await registerCluster(backend, org.token, body);
      const again = await registerCluster(backend, org.token, body);
      const nameless = await registerCluster(backend, org.token, { ...body, installation: undefined });
      expect(nameless.cluster_id).toBe(again.cluster_id);
      const removed = await backend.call("DELETE", `/api/clusters/${again.cluster_id}`, { bearer: org.token });
      expect(removed.statusCode).toBe(204);
      await registerCluster(backend, org.token, { ...body, installation: "two/secret" });
    });

    test("recognises an installation from before names by its heartbeats, but not by those of a replaced key", async () => {
      backend.clock.ms += HOUR_MS;
      const body = clusterBody();
      const first = await registerCluster(backend, org.token, body);
      const beat = (key: string, installation: string) => backend.call("POST", "/heartbeat", { key, body: { installation } });
      await beat(first.api_key, "one/secret");
      const token = await installToken(backend, org.token);
      const second = () => register(token, randomUUID(), { ...body, installation: "two/secret" });
      expect(brief(await second())).toEqual([409, "cluster_in_use"]);
      backend.clock.ms += 90_000;
      expect((await second()).statusCode).toBe(201);
      await beat(first.api_key, "one/secret");
      const third = await installToken(backend, org.token);
      expect((await register(third, randomUUID(), { ...body, installation: "two/secret" })).statusCode).toBe(201);
    });

    test("an agent does not become offline because the backend was stopped", async () => {
      backend.clock.ms += HOUR_MS;
      const body = clusterBody({ installation: "one/secret" });
      await registerCluster(backend, org.token, body);
      backend.clock.ms += HOUR_MS;
      await using restarted = await accountsApp(store.database, { clock: backend.clock, env: { JWT_TTL: "30d" } });
      const token = await installToken(backend, org.token);
      const second = () =>
        restarted.call("POST", "/api/clusters/register", {
          bearer: token,
          headers: { "idempotency-key": randomUUID() },
          body: { ...body, installation: "two/secret" },
        });
      expect(brief(await second())).toEqual([409, "cluster_in_use"]);
      backend.clock.ms += 90_000;
      expect((await second()).statusCode).toBe(201);
    });

    test("keeps the agent_id and the remote configuration of a machine_id that the organisation has", async () => {
      const machine_id = "m".repeat(32);
      const first = await registerHost(backend, org.token, { machine_id });
      await backend.call("PUT", `/api/v1/agents/${first.agent_id}/config`, { bearer: org.token, body: { log_level: "debug" } });
      backend.clock.ms += HOUR_MS;
      const second = await registerHost(backend, org.token, { machine_id, hostname: "renamed" });
      expect(second.agent_id).toBe(first.agent_id);
      const config = await backend.call("GET", `/api/v1/agents/${first.agent_id}/config`, { key: second.api_key });
      expect(config.json()).toEqual({ version: "1", config: { log_level: "debug" } });
    });

    test("rejects a clone of a host while that host is alive, keeps its key valid, and returns instructions", async () => {
      const body = { hostname: "original", machine_id: randomUUID(), agent_version: "1" };
      const original = await registerHost(backend, org.token, body);
      const beat = () => backend.call("POST", "/ingest/agents/heartbeat", { key: original.api_key, body: { interval_s: 20 } });
      const [token, idempotency] = [await installToken(backend, org.token), randomUUID()];
      const clone = (machine_id = body.machine_id) => registerAsHost(token, idempotency, { ...body, hostname: "clone", machine_id });
      // The original has just enrolled, its first heartbeat is still to come.
      expect(brief(await clone())).toEqual([409, "host_in_use"]);
      await beat();
      backend.clock.ms += 60_000 - 1;
      const refused = await clone();
      expect([...brief(refused), refused.headers["retry-after"]]).toEqual([409, "host_in_use", "20"]);
      expect(refused.json().message).toMatch(/original.*systemd-machine-id-setup.*60 s/);
      await beat();
      backend.clock.ms += 5 * MINUTE_MS;
      expect(await ingest(original.api_key)).toBe(204);
      // The refused token is good for the clone's new machine id.
      const renumbered = await clone(randomUUID());
      expect(renumbered.statusCode).toBe(201);
      expect(renumbered.json().agent_id).not.toBe(original.agent_id);
      expect(await ingest(original.api_key)).toBe(204);
    });

    test("keeps the agent_id of a reinstalled host once its earlier agent is silent, or at once if its key was revoked", async () => {
      const body = { machine_id: randomUUID() };
      const first = await registerHost(backend, org.token, body);
      const [token, idempotency] = [await installToken(backend, org.token), randomUUID()];
      const again = () => registerAsHost(token, idempotency, { hostname: "h", agent_version: "2", ...body });
      backend.clock.ms += 90_000 - 1;
      expect(brief(await again())).toEqual([409, "host_in_use"]);
      backend.clock.ms += 1;
      const taken = await again();
      expect([taken.statusCode, taken.json().agent_id]).toEqual([201, first.agent_id]);
      const removed = await backend.call("DELETE", `/api/v1/agents/${first.agent_id}`, { bearer: org.token });
      expect(removed.statusCode).toBe(204);
      await registerHost(backend, org.token, body);
    });

    test("gives one of several clones that register concurrently a key", async () => {
      const body = { hostname: "clone", machine_id: randomUUID(), agent_version: "1" };
      const tokens = await Promise.all(Array.from({ length: 4 }, () => installToken(backend, org.token)));
      const answers = await Promise.all(tokens.map((token) => registerAsHost(token, randomUUID(), body)));
      expect(answers.map(({ statusCode }) => statusCode).sort((one, two) => one - two)).toEqual([201, 409, 409, 409]);
    });
  });
});
