// Pages of lists, and limits on the number of rows, over HTTP, on the engines of the relational store.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  accountsApp,
  makeOrg,
  registerCluster,
  registerHost,
  type AccountsApp,
  type Org,
  type RegisteredCluster,
} from "../../../test/fixtures/accounts-app.ts";
import type { AccountTables } from "../../auth/sessions/account-tables.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import type { EnrolmentTables } from "./enrolment-tables.ts";

const PAGE = 5;
const MOST_NODES = 12;

interface Listed {
  name: string;
  hostname: string;
  nodes: { name: string }[];
}

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let org: Org;

  beforeAll(async () => {
    backend = await accountsApp(store.database, { pageRows: PAGE, maxNodes: MOST_NODES });
    org = await makeOrg(backend);
  });
  afterAll(async () => await backend?.[Symbol.asyncDispose]());

  const beat = (cluster: RegisteredCluster, node: string) =>
    backend.call("POST", "/heartbeat", { key: cluster.api_key, body: { node, interval_s: 30 } });

  async function pages(first: string, bearer: string): Promise<Listed[][]> {
    const all: Listed[][] = [];
    for (let next: string | undefined = first; next !== undefined;) {
      const answer = await backend.call("GET", next, { bearer });
      expect(answer.statusCode).toBe(200);
      all.push(answer.json());
      next = /<(.*)>; rel="next"/.exec(String(answer.headers["link"] ?? ""))?.[1];
    }
    return all;
  }

  test("pages of clusters and their nodes neither repeat nor omit one", async () => {
    const expected: [string, string[]][] = [];
    for (const [at, nodes] of [3, 0, 12, 1, 5, 0, 0, 0, 0, 0, 0, 2].entries()) {
      const name = `cluster-${String(at).padStart(2, "0")}`;
      const cluster = await registerCluster(backend, org.token, { cluster_name: name });
      const names = Array.from({ length: nodes }, (_, node) => `node-${String(node).padStart(2, "0")}`);
      for (const node of names) expect((await beat(cluster, node)).statusCode).toBe(204);
      expected.push([name, names]);
    }
    const read = await pages("/api/clusters", org.token);
    const joined = new Map<string, string[]>();
    for (const page of read) {
      expect(page.length).toBeLessThanOrEqual(PAGE);
      expect(page.flatMap((cluster) => cluster.nodes).length).toBeLessThanOrEqual(PAGE);
      for (const { name, nodes } of page) joined.set(name, [...(joined.get(name) ?? []), ...nodes.map((node) => node.name)]);
    }
    expect([...joined]).toEqual(expected);
    expect(await pages("/api/clusters", (await makeOrg(backend)).token)).toEqual([[]]);
  });

  test("hosts are paged", async () => {
    const names = Array.from({ length: 11 }, (_, at) => `host-${String(at).padStart(2, "0")}`);
    for (const hostname of names) await registerHost(backend, org.token, { hostname });
    const read = await pages("/api/v1/agents", org.token);
    expect(read.map((page) => page.length)).toEqual([5, 5, 1]);
    expect(read.flat().map((host) => host.hostname)).toEqual(names);
  });

  test.each(["x", "W10", Buffer.from('["a","b","c"]').toString("base64url"), Buffer.from('["a\\u0000",1]').toString("base64url")])(
    "rejects an invalid cursor: %s",
    async (cursor) => {
      for (const path of ["/api/clusters", "/api/v1/agents"]) {
        const answer = await backend.call("GET", `${path}?cursor=${cursor}`, { bearer: org.token });
        expect([answer.statusCode, answer.json().error]).toEqual([400, "invalid_parameter"]);
      }
    },
  );

  test("limits an organisation to 5,000 users, keys and unused install tokens, until some are removed or expire", async () => {
    const { orgId, token } = await makeOrg(backend);
    const post = (path: string, body: object) => backend.call("POST", path, { bearer: token, body });
    const id = (await post("/api/keys", { name: "first" })).json().key_id as string;
    expect((await post("/api/install-tokens", { ttl: "1h" })).statusCode).toBe(201);
    const db = store.database.tables<AccountTables & EnrolmentTables>();
    const at = new Date();
    const key = await db.selectFrom("api_keys").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
    const unused = await db.selectFrom("install_tokens").selectAll().where("org_id", "=", orgId).executeTakeFirstOrThrow();
    const user = { org_id: orgId, password_hash: "x", role: "viewer", session_epoch: 0, created_at: at } as const;
    // PostgreSQL and SQLite take some thousand values in a statement.
    for (let made = 0; made < 4999; made += 1000) {
      const ids = Array.from({ length: Math.min(1000, 4999 - made) }, () => randomUUID());
      await db
        .insertInto("users")
        .values(ids.map((one) => ({ ...user, id: one, email: one })))
        .execute();
      await db
        .insertInto("install_tokens")
        .values(ids.map((one) => ({ ...unused, id: one, token_hash: one })))
        .execute();
      await db
        .insertInto("api_keys")
        .values(ids.map((one) => ({ ...key, id: one, owner_id: one, key_hash: one })))
        .execute();
    }
    for (const [path, body] of [
      ["/api/users", { email: `late-${randomUUID()}@example.com`, password: "long enough", role: "viewer" }],
      ["/api/keys", { name: "late" }],
      ["/api/install-tokens", { ttl: "1h" }],
    ] as const) {
      const refused = await post(path, body);
      expect([path, refused.statusCode, refused.json().error]).toEqual([path, 409, "limit_reached"]);
    }
    expect((await backend.call("GET", "/api/keys", { bearer: token })).json()).toHaveLength(5000);
    await backend.call("DELETE", `/api/keys/${id}`, { bearer: token });
    const both = await Promise.all([post("/api/keys", { name: "late" }), post("/api/keys", { name: "later" })]);
    expect(both.map(({ statusCode }) => statusCode).sort((a, b) => a - b)).toEqual([201, 409]);
    await db
      .updateTable("install_tokens")
      .set({ expires_at: new Date(backend.clock.ms) })
      .where("org_id", "=", orgId)
      .execute();
    expect((await post("/api/install-tokens", { ttl: "1h" })).statusCode).toBe(201);
    expect(await db.selectFrom("install_tokens").select("id").where("org_id", "=", orgId).execute()).toHaveLength(1);
  });

  test("limits the nodes of a cluster's key; existing ones continue, and one silent for a day is replaced", async () => {
    const cluster = await registerCluster(backend, org.token, { cluster_name: `full-${randomUUID()}` });
    const more = Array.from({ length: MOST_NODES + 3 }, (_, at) => beat(cluster, `node-${at}`));
    const statuses = (await Promise.all(more)).map((answer) => answer.statusCode);
    expect(statuses.filter((status) => status === 204)).toHaveLength(MOST_NODES);
    const refused = await beat(cluster, "one-too-many");
    expect([refused.statusCode, refused.json()]).toEqual([409, { error: "limit_reached", message: expect.stringContaining("12 nodes") }]);
    const known = statuses.indexOf(204);
    expect((await beat(cluster, `node-${known}`)).statusCode).toBe(204);
    backend.clock.ms += 25 * 3_600_000;
    expect((await beat(cluster, "one-too-many")).statusCode).toBe(204);
  });
});
