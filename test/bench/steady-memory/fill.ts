// Fills an empty accounts store before a backend opens it: organisations, each with an administrator, and clusters and hosts in equal
// numbers with a key each. Creating them through the API would take an hour, because of the password hashes.
import { createHash, randomUUID } from "node:crypto";
import { hashPassword } from "../../../backend/auth/sessions/password.ts";
import { openDatabase } from "../../../backend/engines/relational/database.ts";
import { migrate } from "../../../backend/engines/relational/migrate.ts";
import { newKey } from "../../../backend/tenants/enrolment/key-table.ts";
import { MasterKeys } from "../../../backend/tenants/enrolment/master-key.ts";
import { createLog } from "../../../backend/log.ts";
import type { BackendPlace } from "../../fixtures/backend-process.ts";
import type { AllTables } from "../../fixtures/filled-accounts.ts";

interface FleetSize {
  readonly keys: number;
  readonly orgs: number;
}

export interface FleetKey {
  readonly kind: "cluster" | "host";
  /** The cluster's or the host's id. */
  readonly ownerId: string;
  /** The e-mail address of its organisation's administrator. */
  readonly admin: string;
  /** The key itself: another one after a rotation. */
  apiKey: string;
}

export const PASSWORD = randomUUID();
const ROWS_OF_A_STATEMENT = 500;
const NEW_HOST = { agent_version: "1", collector: null, config_in_force: null, config_error: null };

/** Returns the keys in an order in which those of one organisation are spread. */
export async function fill({ env, dataDir }: BackendPlace, size: FleetSize): Promise<FleetKey[]> {
  await using database = await openDatabase({ url: env["DATABASE_URL"], dataDir, log: createLog("silent") });
  await migrate(database);
  const masterKeys = new MasterKeys(Buffer.from(env["MASTER_KEY"] ?? "", "base64"));
  const { keys, ...rows } = await rowsOf(size, masterKeys);
  await database
    .tables<AllTables>()
    .transaction()
    .execute(async (trx) => {
      await inserted(rows.orgs, (some) => trx.insertInto("orgs").values(some).execute());
      await inserted(rows.users, (some) => trx.insertInto("users").values(some).execute());
      await inserted(rows.clusters, (some) => trx.insertInto("clusters").values(some).execute());
      await inserted(rows.hosts, (some) => trx.insertInto("hosts").values(some).execute());
      await inserted(rows.apiKeys, (some) => trx.insertInto("api_keys").values(some).execute());
    });
  return keys;
}

/** A few statements, whatever the size of the fleet. */
async function inserted<Row>(rows: readonly Row[], insert: (some: readonly Row[]) => Promise<unknown>): Promise<void> {
  for (let from = 0; from < rows.length; from += ROWS_OF_A_STATEMENT) await insert(rows.slice(from, from + ROWS_OF_A_STATEMENT));
}

async function rowsOf({ keys: keyCount, orgs: orgCount }: FleetSize, masterKeys: MasterKeys) {
  const passwordHash = await hashPassword(PASSWORD);
  const at = new Date();
  const orgs = Array.from({ length: orgCount }, () => randomUUID()).map((id) => ({ id, name: `org ${id}`, created_at: at }));
  const users = orgs.map(({ id }) => ({
    id: randomUUID(),
    org_id: id,
    email: emailOf(id),
    role: "admin" as const,
    session_epoch: 0,
    created_at: at,
    password_hash: passwordHash,
  }));
  const owners = Array.from({ length: keyCount }, (_, index) => ownerOf(index, orgCount, orgs[index % orgCount]?.id ?? "", at));
  const minted = owners.map(({ kind, name, owner }) =>
    newKey(masterKeys, { orgId: owner.org_id, kind, ownerId: owner.id, node: name }, at),
  );
  return {
    orgs,
    users,
    clusters: owners.flatMap(({ kind, name, uid, owner }) => (kind === "cluster" ? [{ ...owner, name, cluster_uid: uid }] : [])),
    hosts: owners.flatMap(({ kind, name, uid, owner }) =>
      kind === "host" ? [{ ...owner, ...NEW_HOST, hostname: name, machine_id: uid }] : [],
    ),
    apiKeys: minted.map(({ row }) => row),
    keys: owners.map(({ kind, owner }, index): FleetKey => {
      return { kind, ownerId: owner.id, admin: emailOf(owner.org_id), apiKey: minted[index]?.rawKey ?? "" };
    }),
  };
}

/** Kinds alternate within an organisation. */
function ownerOf(index: number, orgCount: number, orgId: string, at: Date) {
  const kind = Math.floor(index / orgCount) % 2 === 0 ? ("cluster" as const) : ("host" as const);
  return {
    kind,
    name: `${kind}-${index}`,
    uid: createHash("sha256").update(`${index}`).digest("hex"),
    owner: { id: randomUUID(), org_id: orgId, created_at: at, last_heartbeat: null },
  };
}

function emailOf(orgId: string): string {
  return `admin@${orgId}.example`;
}
