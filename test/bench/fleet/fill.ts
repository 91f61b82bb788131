// The accounts of a fleet, written into an empty store before a backend opens it: organisations, each with an administrator, clusters and
// hosts in equal numbers with a key each, and rules. As the API would write them, which would take an hour of passwords and tokens.
import { createHash, randomUUID } from "node:crypto";
import { hashPassword } from "../../../backend/accounts/password.ts";
import { openDatabase } from "../../../backend/engines/relational/database.ts";
import { migrate } from "../../../backend/engines/relational/migrate.ts";
import { mintKey } from "../../../backend/enrolment/key-table.ts";
import { MasterKeys } from "../../../backend/enrolment/master-key.ts";
import { createLog } from "../../../backend/observability/log.ts";
import type { BackendPlace } from "../../fixtures/backend-process.ts";
import type { AllTables } from "../../fixtures/filled-accounts.ts";

export interface FleetSize {
  readonly keys: number;
  readonly orgs: number;
  readonly rules: number;
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

/** Answers the keys, those of one organisation apart from each other. */
export async function fill({ env, dataDir }: BackendPlace, { keys, orgs, rules }: FleetSize): Promise<FleetKey[]> {
  await using database = await openDatabase({ url: env["DATABASE_URL"], dataDir, log: createLog("silent") });
  await migrate(database);
  const masterKeys = new MasterKeys(Buffer.from(env["MASTER_KEY"] ?? "", "base64"));
  const passwordHash = await hashPassword(PASSWORD);
  const at = new Date();
  return await database
    .tables<AllTables>()
    .transaction()
    .execute(async (trx) => {
      const orgIds = Array.from({ length: orgs }, () => randomUUID());
      for (const id of orgIds) {
        await trx
          .insertInto("orgs")
          .values({ id, name: `org ${id}`, created_at: at })
          .execute();
        const admin = { id: randomUUID(), org_id: id, email: emailOf(id), role: "admin" as const, session_epoch: 0, created_at: at };
        await trx
          .insertInto("users")
          .values({ ...admin, password_hash: passwordHash })
          .execute();
      }
      const made: FleetKey[] = [];
      for (let index = 0; index < keys; index += 1) {
        const org_id = orgIds[index % orgs] ?? "";
        const kind = Math.floor(index / orgs) % 2 === 0 ? "cluster" : "host";
        const owner = { id: randomUUID(), org_id, created_at: at, last_heartbeat: null };
        const [name, uid] = [`${kind}-${index}`, createHash("sha256").update(`${index}`).digest("hex")];
        if (kind === "cluster")
          await trx
            .insertInto("clusters")
            .values({ ...owner, name, cluster_uid: uid })
            .execute();
        else
          await trx
            .insertInto("hosts")
            .values({
              ...owner,
              hostname: name,
              machine_id: uid,
              agent_version: "1",
              collector: null,
              config_in_force: null,
              config_error: null,
            })
            .execute();
        const { rawKey } = await mintKey(trx, masterKeys, { orgId: org_id, kind, ownerId: owner.id, node: name }, at);
        made.push({ kind, ownerId: owner.id, admin: emailOf(org_id), apiKey: rawKey });
      }
      for (let index = 0; index < rules; index += 1)
        await trx
          .insertInto("rules")
          .values(rule(orgIds[index % orgs] ?? "", index))
          .execute();
      const revisions = orgIds.map((org_id) => ({ org_id, revision: 1 }));
      if (rules > 0) await trx.insertInto("rule_sets").values(revisions).execute();
      return made;
    });
}

function emailOf(orgId: string): string {
  return `admin@${orgId}.example`;
}

function rule(org_id: string, index: number) {
  const text = { name: `rule ${index}`, severity: "warning" as const, expr: `sum by (node) (up) > ${index}`, for_duration: "1m" };
  return { id: randomUUID(), org_id, ...text, enabled: true, labels: "{}", annotations: "{}", revision: 1, created_at: new Date() };
}
