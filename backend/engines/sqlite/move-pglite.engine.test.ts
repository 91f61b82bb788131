// The move of an earlier version's accounts, from a real PGlite folder.
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomUUID } from "node:crypto";
import type { Kysely } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { AccountTables } from "../../accounts/table.ts";
import type { AlertingTables } from "../../alerting/table.ts";
import type { EnrolmentTables } from "../../enrolment/table.ts";
import { createLog } from "../../observability/log.ts";
import { openDatabase, openPglite } from "../postgres/database.ts";
import { migrate } from "../postgres/migrate.ts";

type Tables = AccountTables & EnrolmentTables & AlertingTables;

const CLUSTERS = 1000;
const log = createLog("silent");
const root = mkdtempSync(join(tmpdir(), "atherops-move-"));
const made = join(root, "made");
let dataDir: string;
let expected: unknown;
let number = 0;

beforeAll(async () => {
  await using database = await openPglite(made);
  await migrate(database);
  await fill(database.tables());
  expected = await everything(database.tables());
});
afterAll(() => rmSync(root, { recursive: true, force: true }));
beforeEach(() => {
  dataDir = join(root, String(number++));
  mkdirSync(dataDir);
  cpSync(made, join(dataDir, "postgres"), { recursive: true });
});

async function fill(db: Kysely<Tables>): Promise<void> {
  const at = new Date("2026-11-21T01:02:03.456Z");
  const org_id = randomUUID();
  const common = () => ({ id: randomUUID(), org_id, created_at: at });
  const ids = Array.from({ length: CLUSTERS }, () => randomUUID());
  await db.insertInto("orgs").values({ id: org_id, name: "ä 'org'\n", created_at: at }).execute();
  const user = { password_hash: "$argon2id$x", role: "viewer", session_epoch: 3 } as const;
  await db
    .insertInto("users")
    .values(ids.map((id) => ({ ...common(), ...user, email: `${id}@x` })))
    .execute();
  const cluster = { last_heartbeat: at, heartbeat_interval_s: 20, installation: null };
  await db
    .insertInto("clusters")
    .values(ids.map((id) => ({ ...common(), ...cluster, id, name: id, cluster_uid: id })))
    .execute();
  const node = { name: "n", agent_version: null, last_heartbeat: at, collector: '{"state":"running","restarts":2}' };
  await db
    .insertInto("cluster_nodes")
    .values(ids.map((id) => ({ ...node, cluster_id: id })))
    .execute();
  const rule = {
    severity: "info",
    expr: "up",
    for_duration: "0s",
    enabled: false,
    labels: '{"b":"1","a":"2"}',
    annotations: "{}",
    revision: 7,
  } as const;
  await db
    .insertInto("rules")
    .values(ids.map((id) => ({ ...common(), ...rule, name: id, refused: null })))
    .execute();
  await db.insertInto("rule_sets").values({ org_id, revision: 7 }).execute();
  await db
    .insertInto("hosts")
    .values({ ...common(), hostname: "h", machine_id: "m", agent_version: "1", config: '{"signals":["logs"]}' })
    .execute();
  const key = {
    kind: "cluster",
    node: "n",
    ciphertext: "c",
    master_key_id: "m",
    expires_at: null,
    revoked_at: at,
    first_used_at: null,
  } as const;
  // Keys refer to keys: one that sorts before the one that it replaced.
  const [low, high] = ["00000000-0000-4000-8000-000000000000", "ffffffff-ffff-4fff-8fff-ffffffffffff"];
  const pair = (id: string, rotated_from: string | null) => ({
    ...common(),
    ...key,
    id,
    owner_id: id,
    key_hash: id,
    rotated_from,
    rotation_idempotency_key: null,
  });
  await db.insertInto("api_keys").values(pair(high, null)).execute();
  await db.insertInto("api_keys").values(pair(low, high)).execute();
}

async function everything(db: Kysely<Tables>): Promise<unknown> {
  const { api_keys, clusters, hosts, orgs, rules, users } = {
    api_keys: await db.selectFrom("api_keys").selectAll().orderBy("id").execute(),
    clusters: await db.selectFrom("clusters").selectAll().orderBy("id").execute(),
    hosts: await db.selectFrom("hosts").selectAll().orderBy("id").execute(),
    orgs: await db.selectFrom("orgs").selectAll().orderBy("id").execute(),
    rules: await db.selectFrom("rules").selectAll().orderBy("id").execute(),
    users: await db.selectFrom("users").selectAll().orderBy("id").execute(),
  };
  const nodes = await db.selectFrom("cluster_nodes").selectAll().orderBy("cluster_id").execute();
  const ruleSets = await db.selectFrom("rule_sets").selectAll().execute();
  return { api_keys, clusters, hosts, orgs, rules, users, nodes, ruleSets };
}

test("a thousand clusters, users and rules are moved whole at the first start, once, and the folder is kept", async () => {
  for (const start of ["first", "second"]) {
    await using database = await openDatabase({ dataDir, log });
    await migrate(database);
    expect(database.engine).toBe("sqlite");
    expect(await everything(database.tables()), start).toEqual(expected);
    await database.tables<Tables>().updateTable("hosts").set({ hostname: "h" }).execute();
  }
  expect(existsSync(join(dataDir, "postgres", "PG_VERSION"))).toBe(true);
  expect(readdirSync(dataDir).sort()).toEqual(["accounts.sqlite", "postgres"]);
});

test("a move that was cut off begins again", async () => {
  for (const ending of ["", "-wal", "-shm"]) writeFileSync(join(dataDir, `accounts.sqlite.moving${ending}`), "half of it");
  await using database = await openDatabase({ dataDir, log });
  expect(await everything(database.tables())).toEqual(expected);
  expect(readdirSync(dataDir).filter((name) => name.includes("moving"))).toEqual([]);
});

test.each([
  ["lost its control file", (folder: string) => rmSync(join(folder, "global", "pg_control"))],
  ["lost its tables", (folder: string) => rmSync(join(folder, "base"), { recursive: true })],
])("a folder that %s is refused in one sentence, every time, and nothing is begun anew", async (_what, damage) => {
  damage(join(dataDir, "postgres"));
  for (const _start of [1, 2])
    await expect(openDatabase({ dataDir, log })).rejects.toMatchObject({
      name: "StartError",
      message: expect.stringContaining("cannot be moved"),
    });
  expect(existsSync(join(dataDir, "accounts.sqlite"))).toBe(false);
});

test("an empty store of an earlier version is not taken for accounts", async () => {
  rmSync(join(dataDir, "postgres"), { recursive: true });
  await (await openPglite(join(dataDir, "postgres")))[Symbol.asyncDispose]();
  await expect(openDatabase({ dataDir, log })).rejects.toThrow("it holds no accounts");
});

test.each(["clickhouse", "metrics", "postgres", "secrets/admin-password"])(
  "a DATA_DIR with %s and no accounts is refused",
  async (trace) => {
    rmSync(join(dataDir, "postgres"), { recursive: true });
    mkdirSync(join(dataDir, trace, ".."), { recursive: true });
    if (trace.includes("/")) writeFileSync(join(dataDir, trace), "x");
    else {
      mkdirSync(join(dataDir, trace));
      await (await openDatabase({ dataDir, log }))[Symbol.asyncDispose]();
      rmSync(join(dataDir, "accounts.sqlite"));
      writeFileSync(join(dataDir, trace, "something"), "x");
    }
    await expect(openDatabase({ dataDir, log })).rejects.toThrow(`has ${trace} but no accounts.sqlite`);
    expect(existsSync(join(dataDir, "accounts.sqlite"))).toBe(false);
  },
);
