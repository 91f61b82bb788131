// Of users and read tokens that somebody has read, those that are others now, on each store: what sessions and read tokens ask for.
import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { describeOnEachStore } from "../../test/fixtures/each-store.ts";
import { migrate } from "../engines/relational/migrate.ts";
import {
  type AccountDb,
  type AccountTables,
  changedReadTokens,
  changedUsers,
  findReadTokens,
  findUsers,
  insertOrg,
  insertUser,
} from "./table.ts";

describeOnEachStore((store) => {
  let db: AccountDb;
  let orgId: string;

  beforeAll(async () => {
    await migrate(store.database);
    db = store.database.tables<AccountTables>();
    orgId = (await insertOrg(db, "org", new Date())).id;
  });

  test("a user who was demoted, has a new password or is gone is another one; who only was there is not", async () => {
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
    expect(await changedUsers(db, states)).toEqual([]);
    await db.updateTable("users").set({ role: "viewer" }).where("id", "=", demoted).execute();
    await db.updateTable("users").set({ session_epoch: 1 }).where("id", "=", password).execute();
    await db.deleteFrom("users").where("id", "=", gone).execute();
    expect((await changedUsers(db, states)).sort()).toEqual([demoted, password, gone].sort());
  });

  test("a read token that was removed is another one", async () => {
    const ids = [randomUUID(), randomUUID()] as const;
    const row = { org_id: orgId, name: "n", created_by: "e", created_at: new Date(), expires_at: new Date() };
    await db
      .insertInto("read_tokens")
      .values(ids.map((id) => ({ ...row, id })))
      .execute();
    const states = Object.fromEntries((await findReadTokens(db, ids)).map(({ tokenId }) => [tokenId, orgId]));
    expect(await changedReadTokens(db, states)).toEqual([]);
    await db.deleteFrom("read_tokens").where("id", "=", ids[1]).execute();
    expect(await changedReadTokens(db, states)).toEqual([ids[1]]);
  });
});
