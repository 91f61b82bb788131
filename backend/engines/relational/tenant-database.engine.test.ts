// One organisation's view of the store, on each engine: statements without any condition read and change only its rows.
import { randomUUID } from "node:crypto";
import { type Kysely, sql } from "kysely";
import { beforeAll, expect, it } from "vitest";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import type { AccountTables } from "../../auth/sessions/account-tables.ts";
import type { EnrolmentTables } from "../../tenants/enrolment/enrolment-tables.ts";
import { migrate } from "./migrate.ts";
import { TENANT_TABLES, tenantDatabase } from "./tenant-database.ts";

interface Tables extends AccountTables, EnrolmentTables {
  org_limits: { org_id: string; bytes_per_second: number | null };
  schema_migrations: { name: string };
}

const at = new Date("2026-01-01T00:00:00Z");

interface Org {
  readonly id: string;
  readonly cluster: string;
  readonly user: string;
}

describeOnEachStore((store) => {
  let db: Kysely<Tables>;
  let [red, blue]: Org[] = [];
  let ofRed: Kysely<Tables>;

  async function newOrg(name: string): Promise<Org> {
    const org = { id: randomUUID(), cluster: randomUUID(), user: randomUUID() };
    await db.insertInto("orgs").values({ id: org.id, name, created_at: at }).execute();
    const user = { email: `${name}@example.com`, password_hash: "!", role: "admin" as const, session_epoch: 0, created_at: at };
    await db
      .insertInto("users")
      .values({ id: org.user, org_id: org.id, ...user, sso_issuer: null, sso_subject: null })
      .execute();
    await db.insertInto("browser_sessions").values({ id: randomUUID(), user_id: org.user, created_at: at, expires_at: at }).execute();
    const cluster = { name: `${name}-cluster`, cluster_uid: "same", created_at: at, last_heartbeat: null, installation: null };
    await db
      .insertInto("clusters")
      .values({ id: org.cluster, org_id: org.id, ...cluster })
      .execute();
    const node = { cluster_id: org.cluster, name: `${name}-node`, agent_version: null, last_heartbeat: at, collector: null };
    await db
      .insertInto("cluster_nodes")
      .values(node as never)
      .execute();
    await db.insertInto("org_limits").values({ org_id: org.id, bytes_per_second: 1 }).execute();
    return org;
  }

  const names = (rows: readonly { name: string | null }[]) => rows.map(({ name }) => name);

  beforeAll(async () => {
    await migrate(store.database);
    db = store.database.tables<Tables>();
    [red, blue] = [await newOrg("red"), await newOrg("blue")];
    ofRed = tenantDatabase(db, red?.id ?? "");
  });

  it("reads its own rows in tables, joins, subqueries and unions, whatever the statement's conditions", async () => {
    expect(names(await ofRed.selectFrom("orgs").select("name").execute())).toEqual(["red"]);
    expect(names(await ofRed.selectFrom("clusters").select("name").execute())).toEqual(["red-cluster"]);
    expect(names(await ofRed.selectFrom("clusters as c").select("c.name").execute())).toEqual(["red-cluster"]);
    expect(names(await ofRed.selectFrom("cluster_nodes").select("name").execute())).toEqual(["red-node"]);
    expect(await ofRed.selectFrom("browser_sessions").select("user_id").execute()).toEqual([{ user_id: red?.user }]);
    const either = ofRed
      .selectFrom("clusters")
      .select("name")
      .where((eb) => eb.or([eb("org_id", "=", blue?.id ?? ""), eb.val(true)]));
    expect(names(await either.execute())).toEqual(["red-cluster"]);
    const byUid = ofRed.selectFrom("clusters").innerJoin("users", (join) => join.onTrue());
    expect(await byUid.select(["clusters.name", "email"]).execute()).toEqual([{ name: "red-cluster", email: "red@example.com" }]);
    const others = ofRed.selectFrom("orgs").leftJoin("clusters", "clusters.cluster_uid", "orgs.name");
    expect(await others.select(["orgs.name", "clusters.cluster_uid"]).execute()).toEqual([{ name: "red", cluster_uid: null }]);
    const inner = ofRed.selectFrom((eb) => eb.selectFrom("clusters").select("name").as("c")).select("c.name");
    expect(names(await inner.execute())).toEqual(["red-cluster"]);
    const both = ofRed.selectFrom("clusters").select("name").unionAll(ofRed.selectFrom("orgs").select("name"));
    expect(new Set(names(await both.execute()))).toEqual(new Set(["red", "red-cluster"]));
    const listed = db.selectFrom("clusters").select("name").where("org_id", "in", ofRed.selectFrom("orgs").select("id"));
    expect(
      names(
        await tenantDatabase(db, blue?.id ?? "")
          .selectFrom("orgs")
          .select("name")
          .execute(),
      ),
    ).toEqual(["blue"]);
    expect(names(await listed.execute())).toEqual(["red-cluster"]);
    const lock = ofRed.transaction().execute(async (trx) => await trx.selectFrom("orgs").select("name").forNoKeyUpdate().execute());
    expect(names(await lock)).toEqual(["red"]);
  });

  it("updates and deletes its own rows, also in a transaction", async () => {
    await ofRed.transaction().execute(async (trx) => {
      expect((await trx.updateTable("clusters").set({ installation: "new" }).executeTakeFirst()).numUpdatedRows).toBe(1n);
      expect(
        (
          await trx
            .updateTable("clusters")
            .set({ installation: "x" })
            .where("id", "=", blue?.cluster ?? "")
            .executeTakeFirst()
        ).numUpdatedRows,
      ).toBe(0n);
      expect(await trx.deleteFrom("cluster_nodes").returning("name").execute()).toEqual([{ name: "red-node" }]);
      expect((await trx.deleteFrom("users").executeTakeFirst()).numDeletedRows).toBe(1n);
    });
    expect(await db.selectFrom("clusters").select(["name", "installation"]).orderBy("name").execute()).toEqual([
      { name: "blue-cluster", installation: null },
      { name: "red-cluster", installation: "new" },
    ]);
    expect(names(await db.selectFrom("cluster_nodes").select("name").execute())).toEqual(["blue-node"]);
  });

  it("inserts its own rows, and leaves a conflicting row of another organisation alone", async () => {
    const row = (org: Org | undefined, id: string = randomUUID()) => ({
      id,
      org_id: org?.id ?? "",
      name: "n",
      cluster_uid: id,
      created_at: at,
    });
    const insert = (...rows: ReturnType<typeof row>[]) => ofRed.insertInto("clusters").values(rows);
    await insert(row(red), row(red)).execute();
    await expect(insert(row(red), row(blue)).execute()).rejects.toThrow("another organisation");
    const { org_id: _, ...ownerless } = row(red);
    await expect(insert(ownerless as never).execute()).rejects.toThrow("has no org_id");
    const taken = insert(row(red, blue?.cluster)).onConflict((conflict) => conflict.column("id").doUpdateSet({ name: "stolen" }));
    expect((await taken.executeTakeFirst()).numInsertedOrUpdatedRows).toBe(0n);
    expect(
      names(
        await db
          .selectFrom("clusters")
          .select("name")
          .where("id", "=", blue?.cluster ?? "")
          .execute(),
      ),
    ).toEqual(["blue-cluster"]);
    const again = ofRed.insertInto("org_limits").values({ org_id: red?.id ?? "", bytes_per_second: 2 });
    await again.onConflict((conflict) => conflict.column("org_id").doUpdateSet({ bytes_per_second: 2 })).execute();
    expect(await db.selectFrom("org_limits").selectAll().orderBy("bytes_per_second").execute()).toMatchObject([
      { org_id: blue?.id, bytes_per_second: 1 },
      { org_id: red?.id, bytes_per_second: 2 },
    ]);
  });

  it("rejects statements that it cannot limit", async () => {
    const id = blue?.id ?? "";
    for (const statement of [
      ofRed.selectFrom("schema_migrations").selectAll(),
      ofRed.selectFrom(sql<{ name: string }>`(SELECT name FROM clusters)`.as("c")).selectAll(),
      ofRed.selectFrom("orgs").select(sql`(SELECT count(*) FROM clusters)`.as("n")),
      ofRed
        .selectFrom("orgs")
        .select("id")
        .where(sql<boolean>`EXISTS (TABLE clusters)`),
      ofRed
        .with("c", (eb) => eb.selectFrom("clusters").selectAll())
        .selectFrom("c")
        .selectAll(),
      ofRed
        .selectFrom("orgs")
        .rightJoin("clusters", (join) => join.onTrue())
        .selectAll(),
      ofRed.updateTable("clusters").set({ org_id: id }),
      ofRed.updateTable("orgs").set({ id }),
      ofRed
        .insertInto("clusters")
        .columns(["id", "org_id"])
        .expression((eb) => eb.selectFrom("clusters").select(["id", "org_id"])),
      ofRed.insertInto("cluster_nodes").values({ cluster_id: blue?.cluster, name: "n" } as never),
      ofRed
        .insertInto("org_limits")
        .values({ org_id: red?.id ?? "", bytes_per_second: 2 })
        .onConflict((c) => c.column("org_id").doUpdateSet({ org_id: id })),
    ])
      await expect(statement.execute()).rejects.toThrow("on behalf of an organisation");
    await expect(sql`SELECT * FROM clusters`.execute(ofRed)).rejects.toThrow("on behalf of an organisation");
    await expect(ofRed.schema.dropTable("clusters").execute()).rejects.toThrow("on behalf of an organisation");
    expect(() => tenantDatabase(db, "")).toThrow("there is no organisation");
  });

  it("the list contains every table with rows of organisations", async () => {
    const ofInstallation = new Set(["body_claims", "job_claims", "login_failures", "query_slots", "replicas", "schema_migrations"]);
    const tables = (await db.introspection.getTables()).filter(({ name }) => !ofInstallation.has(name));
    const owner = (columns: readonly { name: string }[]) => columns.find(({ name }) => name === "org_id")?.name;
    expect(tables.map(({ name }) => name).sort()).toEqual(Object.keys(TENANT_TABLES).sort());
    for (const { name, columns } of tables.filter((table) => owner(table.columns)))
      expect([name, TENANT_TABLES[name]]).toEqual([name, { column: owner(columns) }]);
  });
});
