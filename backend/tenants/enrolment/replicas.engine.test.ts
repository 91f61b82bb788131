// Two replicas on one PostgreSQL, each with its own connections and caches: a change in one takes effect in the other within the documented
// time.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accountsApp, directKey, makeOrg, registerCluster, type AccountsApp, type Org } from "../../../test/fixtures/accounts-app.ts";
import { NO_POSTGRES, postgresBinaries, PostgresServer } from "../../../test/fixtures/postgres.ts";
import { STALE_MS } from "../../auth/lookup-cache.ts";
import { openDatabase, type Database } from "../../engines/relational/database.ts";
import { createLog } from "../../operations/log.ts";

/** The promise of docs/decisions.md: a revocation or demotion is in force everywhere within 5 seconds. */
const BOUND_MS = 5_000;

describe.skipIf(!postgresBinaries)(`two replicas${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  let server: PostgresServer;
  const databases: Database[] = [];
  const clock = { ms: Date.parse("2026-11-21T09:00:00Z") };
  let one: AccountsApp;
  let two: AccountsApp;
  let org: Org;

  beforeAll(async () => {
    server = await PostgresServer.start();
    const url = await server.newDatabase();
    for (let replica = 0; replica < 2; replica++) databases.push(await openDatabase({ url, dataDir: "unused", log: createLog("silent") }));
    [one, two] = (await Promise.all(databases.map((database) => accountsApp(database, { clock, env: { JWT_TTL: "30d" } })))) as [
      AccountsApp,
      AccountsApp,
    ];
    org = await makeOrg(one);
  });
  afterAll(async () => {
    for (const app of [one, two]) await app?.[Symbol.asyncDispose]();
    for (const database of databases) await database[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  const ingest = async (replica: AccountsApp, key: string) => {
    const answer = await replica.call("POST", "/ingest", { key });
    return answer.statusCode === 204 ? 204 : answer.json().error;
  };

  test("a key minted on one signs on the other at once", async () => {
    const { api_key } = await directKey(one, org.token);
    expect(await ingest(two, api_key)).toBe(204);
  });

  test("a key revoked on one is refused there at once and on the other within the bound, also while it is busy", async () => {
    const { key_id, api_key } = await directKey(one, org.token);
    expect(await ingest(two, api_key)).toBe(204);
    expect((await one.call("DELETE", `/api/keys/${key_id}`, { bearer: org.token })).statusCode).toBe(204);
    expect(await ingest(one, api_key)).toBe("revoked_key");
    expect(await ingest(two, api_key), "known from before").toBe(204);
    clock.ms += BOUND_MS - 1;
    expect(await ingest(two, api_key)).toBe("revoked_key");
  });

  test("a user removed or demoted on one is refused on the other within the bound", async () => {
    const people = await Promise.all(
      ["gone", "demoted"].map(async (name) => {
        const user = { email: `${name}@${randomUUID()}.example`, password: randomUUID() };
        const made = await one.call("POST", "/api/users", { bearer: org.token, body: { ...user, role: "admin" } });
        return { id: made.json().user_id, session: await two.login(user.email, user.password) };
      }),
    );
    const mint = async (session: string) => {
      const answer = await two.call("POST", "/api/install-tokens", { bearer: session, body: {} });
      return answer.statusCode === 201 ? 201 : answer.json().error;
    };
    for (const { session } of people) expect(await mint(session)).toBe(201);
    const [gone, demoted] = people;
    expect((await one.call("DELETE", `/api/users/${gone?.id}`, { bearer: org.token })).statusCode).toBe(204);
    expect((await one.call("PUT", `/api/users/${demoted?.id}/role`, { bearer: org.token, body: { role: "viewer" } })).statusCode).toBe(200);
    clock.ms += BOUND_MS - 1;
    expect(await mint(gone?.session ?? "")).toBe("invalid_token");
    expect(await mint(demoted?.session ?? "")).toBe("forbidden");
  });

  test("a rotation on one: the new key signs on the other at once, the old one there until its 5 minutes are over", async () => {
    const cluster = await registerCluster(one, org.token);
    expect(await ingest(two, cluster.api_key)).toBe(204);
    const started = clock.ms;
    const rotated = await one.call("POST", "/api/clusters/rotate-key", {
      key: cluster.api_key,
      headers: { "idempotency-key": randomUUID() },
    });
    expect(await ingest(two, rotated.json().api_key)).toBe(204);
    clock.ms = started + 5 * 60_000 - 1;
    expect(await ingest(two, cluster.api_key)).toBe(204);
    clock.ms = started + 5 * 60_000;
    expect(await ingest(two, cluster.api_key)).toBe("revoked_key");
  });

  test("the same install token at both at once enrols one agent", async () => {
    const token = (await one.call("POST", "/api/install-tokens", { bearer: org.token, body: {} })).json().token;
    const body = { cluster_name: "both", cluster_uid: randomUUID(), agent_version: "1" };
    const answers = await Promise.all(
      [one, two, one, two].map((replica) =>
        replica.call("POST", "/api/clusters/register", { bearer: token, body, headers: { "idempotency-key": randomUUID() } }),
      ),
    );
    expect(answers.map((answer) => answer.statusCode).sort((a, b) => a - b)).toEqual([201, 401, 401, 401]);
  });

  test("while PostgreSQL is away known keys are accepted for 15 minutes, then 502; an unused key is 502", async () => {
    const { api_key } = await directKey(one, org.token);
    const { api_key: unknown } = await directKey(one, org.token);
    expect(await ingest(two, api_key)).toBe(204);
    await server.stop("killed");
    expect(await ingest(two, api_key)).toBe(204);
    const refused = async (key: string) => {
      const answer = await two.call("POST", "/ingest", { key });
      expect([answer.statusCode, answer.json().error, answer.headers["retry-after"]]).toEqual([502, "storage_unavailable", "2"]);
    };
    await refused(unknown);
    clock.ms += BOUND_MS;
    expect(await ingest(two, api_key)).toBe(204);
    clock.ms += STALE_MS;
    await refused(api_key);
    const login = await two.call("POST", "/api/auth/login", { body: { email: org.email, password: org.password } });
    expect([login.statusCode, login.json().message]).toEqual([502, "the account database cannot be reached or has no room: try again"]);
    await server.resume();
    await expect.poll(() => ingest(two, api_key)).toBe(204);
    await two.login(org.email, org.password);
  });
});
