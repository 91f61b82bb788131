// Which cached users and read tokens have changed, with each relational database.
import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import { changedRows } from "../../engines/relational/bulk-rows.ts";
import { migrate } from "../../engines/relational/migrate.ts";
import {
  type AccountDb,
  type AccountTables,
  findReadTokens,
  findUsers,
  insertOrg,
  insertUser,
  WATCHED_READ_TOKENS,
  WATCHED_USERS,
} from "../../auth/sessions/account-tables.ts";

describeOnEachStore((store) => {
  let db: AccountDb;
  let orgId: string;

  beforeAll(async () => {
    await migrate(store.database);
    db = store.database.tables<AccountTables>();
    orgId = (await insertOrg(db, "org", new Date())).id;
  });

  test("reports a user as changed after a demotion, a new password or a removal, but not after a login", async () => {
    const user = { org_id: orgId, password_hash: "x", role: "admin" as const };
    const made = await Promise.all(
      ["same", "demoted", "password", "gone"].map(
        async (name) => await insertUser(db, { ...user, email: `${name}@x.example` }, new Date()),
      ),
    );
    const [, demoted, password, gone] = made.map(({ id }) => id) as [string, string, string, string];
    const found = await findUsers(db, [...made.map(({ id }) => id), randomUUID()]);
    const states = Object.fromEntries(found.map(({ id, state }) => [id, state]));
    expect(Object.keys(states)).toHaveLength(4);
    expect(await changedRows(db, WATCHED_USERS, states)).toEqual([]);
    await db.updateTable("users").set({ role: "viewer" }).where("id", "=", demoted).execute();
    await db.updateTable("users").set({ session_epoch: 1 }).where("id", "=", password).execute();
    await db.deleteFrom("users").where("id", "=", gone).execute();
    expect((await changedRows(db, WATCHED_USERS, states)).sort()).toEqual([demoted, password, gone].sort());
  });

  test("reports a removed read token as changed", async () => {
    const ids = [randomUUID(), randomUUID()] as const;
    const row = { org_id: orgId, name: "n", created_by: "e", created_at: new Date(), expires_at: new Date(), label_limits: null };
    await db
      .insertInto("read_tokens")
      .values(ids.map((id) => ({ ...row, id })))
      .execute();
    const states = Object.fromEntries((await findReadTokens(db, ids)).map(({ id, state }) => [id, state]));
    expect(await changedRows(db, WATCHED_READ_TOKENS, states)).toEqual([]);
    await db.deleteFrom("read_tokens").where("id", "=", ids[1]).execute();
    expect(await changedRows(db, WATCHED_READ_TOKENS, states)).toEqual([ids[1]]);
  });
});
