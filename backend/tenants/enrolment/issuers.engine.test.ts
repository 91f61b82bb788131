// Trusted issuers over HTTP, on both engines of the relational store: administration, what a token may do, enrolment without an install
// token, and revocation. Two replicas share the database and the clock.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import {
  accountsApp,
  type AccountsApp,
  brief,
  type Clock,
  listedCluster,
  makeOrg,
  type Org,
  registerCluster,
  tryKey,
} from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import { testIssuer, type TestIssuer } from "../../auth/issuers/issuer.fixture.ts";
import { KeysUnavailable } from "../../auth/issuers/key-set.ts";
import { NOT_ACCEPTED } from "../../auth/issuers/trusted-issuers.ts";
import { LOOKUP_CACHE_MS } from "../../auth/lookup-cache.ts";
import { readerOf } from "../../http/request-identity.ts";

const MINUTE_MS = 60_000;
const AGENT = "system:serviceaccount:observability:cluster-agent";
const KUBERNETES = "https://kubernetes.default.svc.cluster.local";

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let replica: AccountsApp;
  let red: Org;
  let blue: Org;
  let first: TestIssuer;
  let second: TestIssuer;
  const clock: Clock = { ms: Date.parse("2026-11-21T09:00:00.700Z") };
  const now = () => clock.ms;
  /** What the published issuers return; undefined: unreachable. */
  const published = new Map<string, TestIssuer>();
  let fetches = 0;

  const routes: NonNullable<Parameters<typeof accountsApp>[1]>["routes"] = (app, guards, ingestTokens) => {
    for (const signal of ["metrics", "logs", "traces"] as const)
      app.post(`/take/${signal}`, { onRequest: ingestTokens.guard(signal) }, async (request) => [request.ingestSender]);
    app.get("/read", { onRequest: guards.reader() }, async (request) => [readerOf(request)]);
  };
  const fetchKeys = async (url: string) => {
    fetches += 1;
    const issuer = published.get(url);
    if (!issuer) throw new KeysUnavailable("no response in time");
    return issuer.jwks.keys;
  };
  const open = async () => await accountsApp(store.database, { clock, routes, fetchKeys });

  beforeAll(async () => {
    backend = await open();
    replica = await open();
    red = await makeOrg(backend);
    blue = await makeOrg(backend);
    first = await testIssuer(KUBERNETES, { kid: "first", now });
    second = await testIssuer(KUBERNETES, { kid: "second", now });
  });
  beforeEach(async () => {
    for (const org of [red, blue]) org.token = await backend.login(org.email, org.password);
    published.clear();
    fetches = 0;
  });
  afterAll(async () => {
    await replica?.[Symbol.asyncDispose]();
    await backend?.[Symbol.asyncDispose]();
  });

  const audienceOf = ({ orgId }: Org) => `atherops:${orgId}`;
  const create = (body: object, bearer = red.token) => backend.call("POST", "/api/issuers", { bearer, body });
  /** Trusts an issuer with one rule for the agent's subject, and returns its id. */
  const trust = async (
    issuer: TestIssuer,
    rule: object,
    { org = red, name = randomUUID() }: { org?: Org; name?: string } = {},
  ): Promise<string> => {
    const rules = [{ claims: { sub: AGENT }, ...rule }];
    const answer = await create({ name, issuer: issuer.url, jwks: issuer.jwks, rules }, org.token);
    if (answer.statusCode !== 201) throw new Error(answer.body);
    clock.ms += LOOKUP_CACHE_MS;
    return answer.json().id;
  };
  const distrust = async (id: string, { org = red } = {}) => await backend.call("DELETE", `/api/issuers/${id}`, { bearer: org.token });
  const send = (token: string, { signal = "logs", on = backend } = {}) =>
    on.call("POST", `/take/${signal}`, { bearer: token, address: "127.0.0.1" });
  const register = (
    token: string,
    body: object = {},
    { idempotency = randomUUID(), on = backend }: { idempotency?: string; on?: AccountsApp } = {},
  ) =>
    on.call("POST", "/api/clusters/register", {
      bearer: token,
      headers: { "idempotency-key": idempotency },
      body: { cluster_name: "prod", cluster_uid: randomUUID(), agent_version: "1.0.0", ...body },
    });

  test("an issuer is listed with its rules and without a secret, for its organisation only, and its changes are in the audit log", async () => {
    const id = await trust(first, { permit: "send" }, { name: "cluster one" });
    const list = (await backend.call("GET", "/api/issuers", { bearer: red.token })).json();
    expect(list).toMatchObject([
      { id, name: "cluster one", issuer: KUBERNETES, audience: audienceOf(red), keys: 1, keys_fetched_at: null, created_by: red.email },
    ]);
    expect(list[0].rules).toEqual([{ claims: { sub: AGENT }, permit: "send" }]);
    expect((await backend.call("GET", "/api/issuers", { bearer: blue.token })).json()).toEqual([]);
    expect(brief(await create({ name: "cluster one", issuer: KUBERNETES, jwks: first.jwks, rules: list[0].rules }))).toEqual([
      409,
      "conflict",
    ]);
    const same = await create({ name: "another", issuer: KUBERNETES, jwks: first.jwks, rules: list[0].rules });
    expect([...brief(same), same.json().message]).toEqual([409, "conflict", expect.stringContaining('"cluster one" has the same issuer')]);
    expect(brief(await distrust(id, { org: blue }))).toEqual([404, "not_found"]);
    expect((await distrust(id)).statusCode).toBe(204);
    await backend.trail.settled();
    const audited = (await backend.call("GET", "/api/audit", { bearer: red.token })).json<{ action: string; subject: object }[]>();
    const entries = audited.filter(({ action }) => action.startsWith("issuer."));
    expect(entries.map(({ action }) => action)).toEqual(["issuer.delete", "issuer.create"]);
    expect(entries[1]?.subject).toMatchObject({ issuer_id: id, name: "cluster one", issuer: KUBERNETES });
  });

  const BAD_BODIES: readonly [string, object, string][] = [
    ["a rule for every subject", { rules: [{ claims: { sub: "*" }, permit: "send" }] }, "rules[0].claims: needs"],
    ["a cluster without a name", { rules: [{ claims: { sub: "a" }, permit: "enrol_cluster" }] }, "rules[0].name: a rule that enrols"],
    ["signals to read", { rules: [{ claims: { sub: "a" }, permit: "read", signals: ["logs"] }] }, "rules[0].signals: only"],
    ["an audience of another organisation", { audience: `atherops:${randomUUID()}` }, "audience: must contain"],
    ["a key without an id", { jwks: { keys: [{ kty: "EC", crv: "P-256", x: "a", y: "b" }] } }, "jwks: each key needs"],
    ["a shared secret", { jwks: { keys: [{ kty: "oct", kid: "a", k: "c2VjcmV0" }] } }, "jwks: contains a private key"],
    ["too many keys", { jwks: { keys: Array.from({ length: 65 }, () => ({})) } }, "jwks: the key set has more than 64"],
    ["an unreachable issuer", { jwks: null, issuer: "https://unreachable.example" }, "issuer: its keys cannot be fetched: no response"],
    ["no URL without keys", { jwks: null, issuer: "kubernetes" }, "issuer: must be a URL"],
  ];
  test.each(BAD_BODIES)("%s is refused with the field", async (_title, change, message) => {
    const rules = [{ claims: { sub: "a" }, permit: "send" }];
    const answer = await create({ name: "bad", issuer: KUBERNETES, jwks: first.jwks, rules, ...change });
    expect([...brief(answer), answer.json().message]).toEqual([400, "invalid_field", expect.stringContaining(message)]);
  });

  test("a token sends the signals of its rule, as its subject, in the organisation of its audience", async () => {
    const rule = { permit: "send", signals: ["logs"], name_claim: "kubernetes.io/pod/name", bytes_per_second: 5, records_per_second: 7 };
    const id = await trust(first, rule);
    const claims = { aud: audienceOf(red), "kubernetes.io": { pod: { name: "web-1" } } };
    const token = await first.token(claims);
    const answer = await send(token);
    const limits = { bytesPerSecond: 5, recordsPerSecond: 7 };
    expect(answer.json()).toMatchObject([{ orgId: red.orgId, kind: "direct", node: "web-1", limits }]);
    const again = await send(await first.token(claims), { on: replica });
    expect(again.json()[0].hostId).toBe(answer.json()[0].hostId);
    const asPassword = { authorization: `Basic ${Buffer.from(`any:${token}`).toString("base64")}` };
    expect((await backend.call("POST", "/take/logs", { headers: asPassword, address: "127.0.0.1" })).statusCode).toBe(200);
    expect(brief(await backend.call("POST", "/take/logs", { headers: { "x-api-key": token }, address: "127.0.0.1" }))[0]).toBe(401);
    expect(brief(await send(token, { signal: "metrics" }))).toEqual([403, "forbidden"]);
    expect(brief(await send(await first.token({ aud: audienceOf(red) })))).toEqual([403, "forbidden"]);
    expect(brief(await send(await first.token({ ...claims, sub: "system:serviceaccount:default:default" })))).toEqual([403, "forbidden"]);
    expect(brief(await send(await first.token({ ...claims, aud: audienceOf(blue) })))).toEqual([401, "invalid_token"]);
    expect(brief(await backend.call("GET", "/read", { bearer: token }))).toEqual([403, "forbidden"]);
    expect(brief(await backend.call("GET", "/api/clusters", { bearer: token }))).toEqual([401, "invalid_token"]);
    await distrust(id);
  });

  test("distinguishes two clusters with the same issuer name by their keys", async () => {
    const [one, two] = [await trust(first, { permit: "send", name: "one" }), await trust(second, { permit: "send", name: "two" })];
    for (const [issuer, node] of [
      [first, "one"],
      [second, "two"],
    ] as const)
      expect((await send(await issuer.token({ aud: audienceOf(red) }))).json()).toMatchObject([{ node }]);
    await distrust(one);
    expect(brief(await send(await first.token({ aud: audienceOf(red) })))).toEqual([401, "invalid_token"]);
    await distrust(two);
  });

  test("a token reads if a rule permits it, and a removed or changed rule ends that on every replica within 5 s", async () => {
    const id = await trust(first, { permit: "read" }, { name: "reader" });
    const token = await first.token({ aud: audienceOf(red) });
    const read = async (on: AccountsApp) => (await on.call("GET", "/read", { bearer: token })).statusCode;
    for (const on of [backend, replica]) expect(await read(on)).toBe(200);
    const rules = [{ claims: { sub: "another" }, permit: "read" }];
    const body = { name: "reader", issuer: KUBERNETES, jwks: first.jwks, rules };
    expect((await backend.call("PUT", `/api/issuers/${id}`, { bearer: red.token, body })).statusCode).toBe(200);
    expect(await read(backend)).toBe(403);
    expect(await read(replica)).toBe(200);
    clock.ms += LOOKUP_CACHE_MS;
    expect(await read(replica)).toBe(403);
    await backend.call("PUT", `/api/issuers/${id}`, {
      bearer: red.token,
      body: { ...body, rules: [{ ...rules[0], claims: { sub: AGENT } }] },
    });
    clock.ms += LOOKUP_CACHE_MS;
    expect(await read(replica)).toBe(200);
    await distrust(id);
    clock.ms += LOOKUP_CACHE_MS;
    for (const on of [backend, replica]) expect(await read(on)).toBe(401);
  });

  test("rotated keys are fetched for an unknown key id, at most every 30 s; an outage is tolerated for 24 hours, across a restart", async () => {
    const url = "https://issuer.example";
    const [old, rotated] = [await testIssuer(url, { kid: "old", now }), await testIssuer(url, { kid: "new", now })];
    published.set(url, old);
    const rules = [{ claims: { sub: AGENT }, permit: "send" }];
    const id = (await create({ name: "published", issuer: url, rules })).json().id;
    const status = async (issuer: TestIssuer, on = backend) =>
      (await send(await issuer.token({ aud: audienceOf(red) }), { on })).statusCode;
    expect([await status(old), fetches]).toEqual([200, 1]);
    published.set(url, rotated);
    expect([await status(rotated), fetches]).toEqual([200, 2]);
    expect([await status(old), await status(old), fetches]).toEqual([401, 401, 2]);
    published.clear();
    clock.ms += 23 * 3_600_000;
    expect(await status(rotated)).toBe(200);
    const restarted = await open();
    expect(await status(rotated, restarted)).toBe(200);
    clock.ms += 2 * 3_600_000;
    expect(await status(rotated)).toBe(401);
    published.set(url, rotated);
    clock.ms += 30_000;
    expect(await status(rotated)).toBe(200);
    await restarted[Symbol.asyncDispose]();
    red.token = await backend.login(red.email, red.password);
    await distrust(id);
  });

  test("a cluster enrols without an install token; a lost response is repeated to a new token of the same subject", async () => {
    const id = await trust(first, { permit: "enrol_cluster", name: "prod" });
    const [cluster_uid, idempotency] = [randomUUID(), randomUUID()];
    const token = await first.token({ aud: audienceOf(red) });
    const registered = await register(token, { cluster_uid }, { idempotency });
    expect([registered.statusCode, Object.keys(registered.json())]).toEqual([201, ["cluster_id", "api_key", "key_created_at"]]);
    expect(registered.headers["x-org-id"]).toBe(red.orgId);
    clock.ms += 1000;
    const repeated = await register(await first.token({ aud: audienceOf(red) }), { cluster_uid }, { idempotency, on: replica });
    expect([repeated.statusCode, repeated.body]).toEqual([201, registered.body]);
    expect(brief(await register(token, { cluster_uid, agent_version: "2" }, { idempotency }))).toEqual([422, "idempotency_key_reused"]);
    expect(await tryKey(backend, registered.json().api_key)).toBe(204);
    expect(brief(await register(token, { cluster_uid }, { idempotency }))).toEqual([401, "invalid_install_token"]);
    expect((await backend.call("GET", "/api/install-tokens", { bearer: red.token })).json()).toEqual([]);
    // The Secret was lost: the same cluster gets a new key.
    const again = await register(token, { cluster_uid });
    expect([again.statusCode, again.json().cluster_id]).toEqual([201, registered.json().cluster_id]);
    expect(await listedCluster(backend, red, registered.json().cluster_id)).toMatchObject({ name: "prod" });
    await backend.call("DELETE", `/api/clusters/${registered.json().cluster_id}`, { bearer: red.token });
    await distrust(id);
  });

  test("a second cluster gets neither the name nor the identity of the first, and a rebuilt cluster is a new one", async () => {
    const ids = [
      await trust(first, { permit: "enrol_cluster", name: "prod" }),
      await trust(second, { permit: "enrol_cluster", name: "stage" }),
    ];
    const [mine, theirs] = [await first.token({ aud: audienceOf(red) }), await second.token({ aud: audienceOf(red) })];
    const cluster_uid = randomUUID();
    const prod = (await register(mine, { cluster_uid })).json();
    expect(brief(await register(theirs, { cluster_uid }))).toEqual([403, "forbidden"]);
    expect(brief(await register(theirs, { cluster_uid, cluster_name: "stage" }))).toEqual([409, "conflict"]);
    expect(brief(await register(mine))).toEqual([409, "conflict"]);
    expect((await register(theirs, { cluster_name: "stage" })).statusCode).toBe(201);
    await backend.call("DELETE", `/api/clusters/${prod.cluster_id}`, { bearer: red.token });
    const rebuilt = (await register(mine)).json();
    expect(rebuilt.cluster_id).not.toBe(prod.cluster_id);
    for (const id of ids) await distrust(id);
    const [third] = [await trust(second, { permit: "enrol_cluster", name: "prod" })];
    await backend.call("DELETE", `/api/clusters/${rebuilt.cluster_id}`, { bearer: red.token });
    const byToken = await registerCluster(backend, red.token, { cluster_name: "tokens", cluster_uid });
    expect(brief(await register(theirs, { cluster_uid }))).toEqual([409, "conflict"]);
    expect(await tryKey(backend, byToken.api_key)).toBe(204);
    await distrust(third);
  });

  test("ten requests for one new name at once: one cluster is enrolled", async () => {
    const id = await trust(first, { permit: "enrol_cluster", name: "crowded" });
    const token = await first.token({ aud: audienceOf(red) });
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, n) => register(token, { cluster_name: "crowded" }, { on: n % 2 === 0 ? backend : replica })),
    );
    expect(answers.map(({ statusCode }) => statusCode).sort((one, two) => one - two)).toEqual([
      201,
      ...Array.from({ length: 9 }, () => 409),
    ]);
    await distrust(id);
    // The replica still has the issuer in its cache.
    expect((await register(token, { cluster_name: "crowded" }, { on: replica })).json()).toEqual({
      error: "invalid_install_token",
      message: NOT_ACCEPTED,
    });
  });

  test("a host enrols under its subject, and no other subject gets its identity", async () => {
    const rules = [{ claims: { sub: "spiffe://example/host/*" }, permit: "enrol_host" }];
    const id = (await create({ name: "hosts", issuer: KUBERNETES, jwks: first.jwks, rules })).json().id;
    const host = { hostname: "web-1", machine_id: randomUUID(), agent_version: "1" };
    const tokenOf = async (name: string) => await first.token({ aud: audienceOf(red), sub: `spiffe://example/host/${name}` });
    const enrol = (bearer: string) =>
      backend.call("POST", "/api/v1/agents/register", { bearer, body: host, headers: { "idempotency-key": randomUUID() } });
    const enrolled = await enrol(await tokenOf("web-1"));
    expect(enrolled.statusCode).toBe(201);
    clock.ms += 5 * MINUTE_MS;
    expect(brief(await enrol(await tokenOf("web-2")))).toEqual([409, "conflict"]);
    expect((await enrol(await tokenOf("web-1"))).json().agent_id).toBe(enrolled.json().agent_id);
    expect(brief(await register(await tokenOf("web-1")))).toEqual([403, "forbidden"]);
    await distrust(id);
  });
});
