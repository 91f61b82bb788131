// Ingest tokens over HTTP, on both engines of the relational store: what they give access to, from which networks, until when, and how they
// are stored. Two replicas share the database and the clock.
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { accountsApp, brief, makeOrg, type AccountsApp, type Clock, type Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import { MAX_AUTHORIZATION_LENGTH } from "../../http/http-limits.ts";
import { IngestTokens, type IngestSignal } from "../../auth/ingest-tokens/ingest-tokens.ts";
import { ingestTokenHash, type IngestTokenTables } from "../../auth/ingest-tokens/ingest-token-table.ts";
import { LOOKUP_CACHE_MS } from "../../auth/lookup-cache.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { findIdentity } from "./ingest-token-table.ts";
import type { EnrolmentTables } from "./enrolment-tables.ts";

const DAY_MS = 86_400_000;
const SIGNALS: readonly IngestSignal[] = ["metrics", "logs", "traces"];
const LOCAL = "127.0.0.1";

interface Created {
  id: string;
  name: string;
  token: string;
  expires_at: string | null;
}

const basic = (token: string): string => `Basic ${Buffer.from(`anybody:${token}`).toString("base64")}`;

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let replica: AccountsApp;
  let red: Org;
  let blue: Org;
  const clock: Clock = { ms: Date.parse("2026-11-21T09:00:00.700Z") };
  const tokensOf = (options: Partial<ConstructorParameters<typeof IngestTokens>[0]> = {}): IngestTokens =>
    new IngestTokens({
      db: store.database.tables(),
      isEnabled: true,
      allowsHttp: false,
      now: () => clock.ms,
      issuers: {} as never,
      ...options,
    });

  const routes: NonNullable<Parameters<typeof accountsApp>[1]>["routes"] = (app, _guards, ingestTokens) => {
    for (const signal of SIGNALS)
      app.post(`/take/${signal}`, { onRequest: ingestTokens.guard(signal) }, async (request) => [request.ingestSender]);
  };
  const open = async (): Promise<AccountsApp> => await accountsApp(store.database, { clock, pageRows: 3, routes });

  beforeAll(async () => {
    backend = await open();
    replica = await open();
    red = await makeOrg(backend);
    blue = await makeOrg(backend);
  });
  beforeEach(async () => {
    for (const org of [red, blue]) org.token = await backend.login(org.email, org.password);
  });
  afterAll(async () => {
    await replica?.[Symbol.asyncDispose]();
    await backend?.[Symbol.asyncDispose]();
  });

  const create = (body: object, bearer = red.token) => backend.call("POST", "/api/ingest-tokens", { bearer, body });
  const created = async (body: object = {}, bearer = red.token): Promise<Created> => (await create({ name: "ci", ...body }, bearer)).json();
  const listed = async (id: string, bearer = red.token): Promise<Record<string, unknown> | undefined> => {
    const rows = (await backend.call("GET", "/api/ingest-tokens", { bearer })).json<Record<string, unknown>[]>();
    return rows.find((row) => row["id"] === id);
  };
  const send = (headers: Record<string, string>, { signal = "logs", on = backend, address = LOCAL } = {}) =>
    on.call("POST", `/take/${signal}`, { headers, address });
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  const remove = async ({ id }: Created) => await backend.call("DELETE", `/api/ingest-tokens/${id}`, { bearer: red.token });

  test("is accepted as a bearer token, as a password and as X-API-Key, with the token's own sender", async () => {
    const token = await created({ name: "ci" });
    expect([Object.keys(token), token.expires_at]).toEqual([["id", "name", "token", "expires_at"], null]);
    for (const headers of [bearer(token.token), { authorization: basic(token.token) }, { "x-api-key": token.token }]) {
      const answer = await send(headers);
      expect([answer.statusCode, answer.json()[0]]).toEqual([
        200,
        expect.objectContaining({ keyId: token.id, kind: "direct", orgId: red.orgId, hostId: token.id, node: "ci" }),
      ]);
    }
    await remove(token);
  });

  store.once("rejects everything else: no token, another form, two tokens, a session, an unknown one", async () => {
    const [first, second] = [await created(), await created()];
    const refused = [
      {},
      bearer("abc"),
      bearer(red.token),
      bearer(first.token.slice(0, -1)),
      bearer(`ig_${"a".repeat(43)}`),
      { ...bearer(first.token), "x-api-key": second.token },
      { authorization: `Basic ${Buffer.from(first.token).toString("base64")}` },
      { authorization: `Basic ${Buffer.from(`${"u".repeat(MAX_AUTHORIZATION_LENGTH)}:${first.token}`).toString("base64")}` },
      bearer(ingestTokenHash(first.token)),
    ];
    for (const headers of refused) expect(brief(await send(headers)), JSON.stringify(headers)).toEqual([401, "invalid_token"]);
    expect((await send({ ...bearer(first.token), "x-api-key": first.token })).statusCode).toBe(200);
    for (const token of [first, second]) await remove(token);
  });

  test("a token sends only its signals, from its networks, and over TLS or loopback", async () => {
    const token = await created({ signals: ["metrics"], networks: ["127.0.0.0/8", "2001:db8::/32"] });
    expect((await send(bearer(token.token), { signal: "metrics" })).statusCode).toBe(200);
    expect((await send(bearer(token.token), { signal: "metrics", address: "::ffff:127.0.0.9" })).statusCode).toBe(200);
    expect(brief(await send(bearer(token.token), { signal: "logs" }))).toEqual([403, "forbidden"]);
    expect(brief(await send(bearer(token.token), { signal: "metrics", address: "::1" }))).toEqual([403, "forbidden"]);
    const remote = { headers: bearer(token.token), address: "2001:db8::7" };
    await expect(tokensOf().authenticate({ ...remote, isEncrypted: false }, "metrics")).rejects.toMatchObject({ code: "forbidden" });
    expect(await tokensOf().authenticate({ ...remote, isEncrypted: true }, "metrics")).toMatchObject({ orgId: red.orgId });
    const overHttp = tokensOf({ allowsHttp: true });
    expect(await overHttp.authenticate({ ...remote, isEncrypted: false }, "metrics")).toMatchObject({ orgId: red.orgId });
    const elsewhere = { ...remote, address: "198.51.100.7", isEncrypted: true };
    await expect(overHttp.authenticate(elsewhere, "metrics")).rejects.toMatchObject({ code: "forbidden" });
    const off = tokensOf({ isEnabled: false });
    await expect(off.authenticate({ ...remote, isEncrypted: true }, "metrics")).rejects.toMatchObject({ code: "not_found" });
    await remove(token);
  });

  test("expires, and is listed for 30 more days", async () => {
    const token = await created({ ttl: "1d" });
    expect((await send(bearer(token.token))).statusCode).toBe(200);
    clock.ms += DAY_MS;
    expect(brief(await send(bearer(token.token)))).toEqual([401, "invalid_token"]);
    red.token = await backend.login(red.email, red.password);
    expect(await listed(token.id)).toMatchObject({ expires_at: token.expires_at });
    clock.ms += 30 * DAY_MS;
    red.token = await backend.login(red.email, red.password);
    expect(await listed(token.id)).toBeUndefined();
  });

  test("after a rotation both secrets are accepted until the overlap ends, with the same identity, by every replica", async () => {
    const token = await created({ ttl: "10d" });
    await send(bearer(token.token), { on: replica });
    const path = `/api/ingest-tokens/${token.id}/rotate`;
    const rotated = (await backend.call("POST", path, { bearer: red.token, body: { overlap: "1h" } })).json<Created>();
    expect(Date.parse(rotated.expires_at ?? "")).toBe(clock.ms + 10 * DAY_MS);
    for (const { token: secret } of [token, rotated])
      expect((await send(bearer(secret), { on: replica })).json()).toMatchObject([{ keyId: token.id, hostId: token.id }]);
    expect(await listed(token.id)).toMatchObject({ previous_valid_until: new Date(clock.ms + 3_600_000).toISOString() });
    clock.ms += 3_600_000;
    red.token = await backend.login(red.email, red.password);
    expect(brief(await send(bearer(token.token), { on: replica }))).toEqual([401, "invalid_token"]);
    expect((await send(bearer(rotated.token), { on: replica })).statusCode).toBe(200);
    const last = (await backend.call("POST", path, { bearer: red.token, body: { overlap: "0", ttl: "1d" } })).json<Created>();
    expect(Date.parse(last.expires_at ?? "")).toBe(clock.ms + DAY_MS);
    expect(brief(await send(bearer(rotated.token)))).toEqual([401, "invalid_token"]);
    expect((await send(bearer(last.token))).statusCode).toBe(200);
    await remove(token);
    clock.ms += LOOKUP_CACHE_MS;
    for (const on of [backend, replica]) expect(brief(await send(bearer(last.token), { on }))).toEqual([401, "invalid_token"]);
  });

  test("after a rotation the previous secret is accepted no longer than its own lifetime, and the response says so", async () => {
    const token = await created({ ttl: "1h" });
    const rotated = await backend.call("POST", `/api/ingest-tokens/${token.id}/rotate`, { bearer: red.token, body: { overlap: "24h" } });
    expect(rotated.json()).toMatchObject({ previous_valid_until: token.expires_at });
    expect(await listed(token.id)).toMatchObject({ previous_valid_until: token.expires_at });
    await remove(token);
  });

  test("shows its last use within a minute", async () => {
    const token = await created();
    expect(await listed(token.id)).toMatchObject({ last_used_at: null });
    for (const seconds of [0, 30, 61]) {
      clock.ms += seconds * 1000;
      await send(bearer(token.token));
    }
    await backend.ingestTokens.flush();
    expect(await listed(token.id)).toMatchObject({ last_used_at: new Date(clock.ms).toISOString() });
    await remove(token);
  });

  test("sends as a host of its own organisation only, and ends with the host", async () => {
    const { token: install } = (await backend.call("POST", "/api/install-tokens", { bearer: red.token, body: {} })).json<Created>();
    const host = { hostname: "db-1", machine_id: randomUUID(), agent_version: "1" };
    const headers = { "idempotency-key": randomUUID() };
    const registered = await backend.call("POST", "/api/v1/agents/register", { bearer: install, body: host, headers });
    const { agent_id: id } = registered.json<{ agent_id: string }>();
    const token = await created({ host: id });
    expect((await send(bearer(token.token))).json()).toMatchObject([{ kind: "host", hostId: id, node: "db-1" }]);
    expect(await listed(token.id)).toMatchObject({ host: id, cluster: null });
    expect(brief(await create({ name: "x", cluster: id }))).toEqual([400, "invalid_field"]);
    expect(brief(await create({ name: "x", host: id, cluster: id }))).toEqual([400, "invalid_field"]);
    await backend.call("DELETE", `/api/v1/agents/${id}`, { bearer: red.token });
    expect(brief(await send(bearer(token.token)))).toEqual([401, "invalid_token"]);
  });

  test("audits its creation with its owner, networks and expiry", async () => {
    const token = await created({ networks: ["10.0.0.0/8"], ttl: "1d" });
    await backend.trail.settled();
    const rows = (await backend.call("GET", "/api/audit", { bearer: red.token })).json<{ subject: Record<string, unknown> }[]>();
    const entry = rows.find(({ subject }) => subject["ingest_token_id"] === token.id);
    expect(entry?.subject).toMatchObject({ owner_id: token.id, networks: "10.0.0.0/8", expires_at: token.expires_at });
    await remove(token);
  });

  test.runIf(store.engine === "PostgreSQL")("creates no token for a host that is removed concurrently", async () => {
    const { token: install } = (await backend.call("POST", "/api/install-tokens", { bearer: red.token, body: {} })).json<Created>();
    const host = { hostname: "db-2", machine_id: randomUUID(), agent_version: "1" };
    const headers = { "idempotency-key": randomUUID() };
    const registered = await backend.call("POST", "/api/v1/agents/register", { bearer: install, body: host, headers });
    const { agent_id: id } = registered.json<{ agent_id: string }>();
    let removal: Promise<unknown> | undefined;
    await tenantDatabase(store.database.tables<EnrolmentTables>(), red.orgId)
      .transaction()
      .execute(async (trx) => {
        await findIdentity(trx, red.orgId, "host", id);
        let isRemoved = false;
        removal = replica.call("DELETE", `/api/v1/agents/${id}`, { bearer: red.token }).then(() => (isRemoved = true));
        await vi.waitFor(async () => {
          if (isRemoved) return;
          const waiting = await sql<{ n: number }>`SELECT count(*)::int AS n FROM pg_locks WHERE NOT granted`.execute(
            store.database.tables(),
          );
          expect(waiting.rows[0]?.n).toBeGreaterThan(0);
        }, 10_000);
        expect(isRemoved).toBe(false);
      });
    await removal;
  });

  test("the table contains only hashes; pages continue after their last token", async () => {
    const tokens = await Promise.all(["a", "b", "c", "d"].map(async (name) => await created({ name, signals: ["logs"] })));
    const rows = await store.database.tables<IngestTokenTables>().selectFrom("ingest_tokens").selectAll().execute();
    for (const { token } of tokens) expect(JSON.stringify(rows)).not.toContain(token.slice(3));
    const first = await backend.call("GET", "/api/ingest-tokens", { bearer: red.token });
    const next = /<([^>]+)>/.exec(String(first.headers["link"]))?.[1] ?? "";
    const second = await backend.call("GET", next, { bearer: red.token });
    expect([...first.json(), ...second.json()].map(({ name }) => name)).toEqual(["a", "b", "c", "d"]);
    expect((await backend.call("GET", "/api/ingest-tokens", { bearer: blue.token })).json()).toEqual([]);
    for (const token of tokens) await remove(token);
  });
});
