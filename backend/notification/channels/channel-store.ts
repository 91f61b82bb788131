// Stores the channels of all organisations in the database. Invariants: every statement names the organisation, except those at startup;
// secrets are encrypted with the master key, bound to organisation and channel, and leave this file only for a single attempt to send, or
// for the user who created them.
import { randomUUID } from "node:crypto";
import type { Kysely, Selectable, Transaction } from "kysely";
import { type MasterKeys, REENCRYPTION_BATCH, requireNoForeignRows } from "../../tenants/enrolment/master-key.ts";
import { ApiError } from "../../errors.ts";
import { notFound, invalidField } from "../../http/schemas.ts";
import { MAX_CHANNELS_PER_ORG } from "../notification-limits.ts";
import { type CheckedChannel } from "./channel-settings.ts";
import type { ChannelKind, OpenChannel } from "../model/message.ts";
import { newSigningSecret } from "./webhook.ts";
import type { ChannelsTable, NotificationTables } from "../model/notification-tables.ts";
import { changeOrganisation } from "../model/organisation-rows.ts";
import { requireCapacity, requireUniqueName } from "../../engines/relational/row-limits.ts";
import { type OrgTable, tenantDatabase } from "../../engines/relational/tenant-database.ts";

export type ChannelRow = Selectable<ChannelsTable>;
type Trx = Transaction<NotificationTables>;

/** How long a receiver has to adopt its new secret. */
export const ROTATION_MS = 24 * 3_600_000;

export interface ChannelStoreOptions {
  readonly db: Kysely<NotificationTables>;
  readonly masterKeys: MasterKeys;
  readonly now?: () => number;
}

/** A channel, with its secret if one was generated. */
export interface CreatedChannel {
  readonly row: ChannelRow;
  readonly signingSecret?: string;
}

export class ChannelStore {
  readonly #db: Kysely<NotificationTables>;
  readonly #masterKeys: MasterKeys;
  readonly #now: () => number;

  constructor({ db, masterKeys, now = Date.now }: ChannelStoreOptions) {
    this.#db = db;
    this.#masterKeys = masterKeys;
    this.#now = now;
  }

  /** By name. */
  async list(orgId: string): Promise<ChannelRow[]> {
    const tenantDb = tenantDatabase(this.#db, orgId);
    return await tenantDb.selectFrom("channels").selectAll().where("org_id", "=", orgId).orderBy("name").orderBy("id").execute();
  }

  /** The channel with decrypted secrets, for one attempt; undefined also for a channel of another organisation. */
  async open(orgId: string, id: string): Promise<OpenChannel | undefined> {
    const row = await findChannel(tenantDatabase(this.#db, orgId), orgId, id);
    return row && this.decrypt(row);
  }

  decrypt(row: ChannelRow): OpenChannel {
    const { id, org_id: orgId, name, kind, settings, enabled, master_key_id, secret, previous_secret, secret_rotated_at } = row;
    const read = (ciphertext: string) => this.#masterKeys.decrypt({ ciphertext, master_key_id }, orgId, boundTo(id));
    const isRotating = previous_secret !== null && (secret_rotated_at?.getTime() ?? 0) + ROTATION_MS > this.#now();
    const secrets = { secret: read(secret), previousSecret: isRotating ? read(previous_secret) : undefined };
    return { id, orgId, name, kind, settings, enabled, ...secrets };
  }

  /** Throws ApiError `conflict` if the name is taken, `limit_reached`, `invalid_field` if a secret is missing. */
  async create(orgId: string, checked: CheckedChannel): Promise<CreatedChannel> {
    const id = randomUUID();
    const isWebhook = checked.kind === "webhook";
    const secret = isWebhook ? newSigningSecret() : requireSecret(checked);
    const row = await this.#change(orgId, checked.name, async (trx) => {
      const channels = trx.selectFrom("channels").where("org_id", "=", orgId);
      await requireCapacity(trx.$extendTables<OrgTable>(), orgId, "channels", channels, MAX_CHANNELS_PER_ORG);
      const values = {
        id,
        org_id: orgId,
        kind: checked.kind,
        ...columnsOf(checked),
        ...this.#encrypt(orgId, id, secret),
        previous_secret: null,
        secret_rotated_at: null,
        last_heartbeat_at: null,
        created_at: new Date(this.#now()),
      };
      return await trx.insertInto("channels").values(values).returningAll().executeTakeFirstOrThrow();
    });
    return { row, ...(isWebhook && { signingSecret: secret }) };
  }

  /**
   * Replaces the channel; without a new secret, the old one is kept. Throws ApiError `not_found`, `conflict`, `invalid_field` if the kind
   * differs.
   */
  async replace(orgId: string, id: string, checked: CheckedChannel): Promise<ChannelRow> {
    return await this.#change(orgId, checked.name, async (trx) => {
      const before = await requireChannel(trx, orgId, id);
      if (before.kind !== checked.kind) throw invalidField("kind", `is ${before.kind} and cannot be changed: create another channel`);
      const secret = checked.secret === undefined ? {} : this.#encrypt(orgId, id, checked.secret);
      // If the heartbeat interval changes, the interval starts now.
      const heartbeat = before.heartbeat_seconds === checked.heartbeatSeconds ? {} : { last_heartbeat_at: null };
      return await trx
        .updateTable("channels")
        .set({ ...columnsOf(checked), ...secret, ...heartbeat })
        .where("org_id", "=", orgId)
        .where("id", "=", id)
        .returningAll()
        .executeTakeFirstOrThrow();
    });
  }

  /**
   * Generates a new signing secret; for ROTATION_MS, messages are also signed with the previous one. Throws ApiError `not_found`,
   * `conflict` for another kind of channel.
   */
  async rotate(orgId: string, id: string): Promise<CreatedChannel & { readonly signingSecret: string }> {
    const signingSecret = newSigningSecret();
    const row = await this.#change(orgId, "", async (trx) => {
      const before = await requireChannel(trx, orgId, id);
      if (before.kind !== "webhook") throw new ApiError("conflict", "only a webhook has a signing secret: replace the channel's settings");
      const previous = this.#encrypt(orgId, id, this.decrypt(before).secret).secret;
      return await trx
        .updateTable("channels")
        .set({ ...this.#encrypt(orgId, id, signingSecret), previous_secret: previous, secret_rotated_at: new Date(this.#now()) })
        .where("org_id", "=", orgId)
        .where("id", "=", id)
        .returningAll()
        .executeTakeFirstOrThrow();
    });
    return { row, signingSecret };
  }

  /** Returns the deleted row. Throws ApiError `not_found`, `conflict` if a route refers to the channel. */
  async delete(orgId: string, id: string): Promise<ChannelRow> {
    return await this.#change(orgId, "", async (trx) => {
      const row = await requireChannel(trx, orgId, id);
      const routes = await trx.selectFrom("routes").select(["position", "channel_ids"]).where("org_id", "=", orgId).execute();
      const uses = routes.filter((route) => route.channel_ids.includes(id)).length;
      if (uses > 0)
        throw new ApiError(
          "conflict",
          `${uses === 1 ? "a route uses" : `${uses} routes use`} this channel: remove it from ${uses === 1 ? "the route" : "these routes"} first`,
        );
      await trx.deleteFrom("channels").where("org_id", "=", orgId).where("id", "=", id).execute();
      return row;
    });
  }

  #encrypt(orgId: string, id: string, secret: string): { secret: string; master_key_id: string } {
    const { ciphertext, master_key_id } = this.#masterKeys.encrypt(secret, orgId, boundTo(id));
    return { secret: ciphertext, master_key_id };
  }

  async #change<T>(orgId: string, name: string, change: (trx: Trx) => Promise<T>): Promise<T> {
    return await requireUniqueName("channel", name, () => changeOrganisation(this.#db, orgId, new Date(this.#now()), change));
  }
}

/** Undefined also for a channel of another organisation. */
export async function findChannel(db: Kysely<NotificationTables>, orgId: string, id: string): Promise<ChannelRow | undefined> {
  return await db.selectFrom("channels").selectAll().where("org_id", "=", orgId).where("id", "=", id).executeTakeFirst();
}

async function requireChannel(trx: Trx, orgId: string, id: string): Promise<ChannelRow> {
  const row = await findChannel(trx, orgId, id);
  if (!row) throw notFound("channel");
  return row;
}

/** Re-encrypts every secret with the current master key, and returns the number of channels. Throws like `requireNoForeignRows`. */
export async function reencryptChannels(db: Kysely<NotificationTables>, masterKeys: MasterKeys): Promise<number> {
  let reencrypted = 0;
  const older = masterKeys.ids.filter((id) => id !== masterKeys.currentId);
  while (older.length > 0) {
    const rows = await db.selectFrom("channels").selectAll().where("master_key_id", "in", older).limit(REENCRYPTION_BATCH).execute();
    if (rows.length === 0) break;
    for (const { id, org_id: orgId, secret, previous_secret, master_key_id } of rows) {
      const reencrypt = (ciphertext: string) =>
        masterKeys.encrypt(masterKeys.decrypt({ ciphertext, master_key_id }, orgId, boundTo(id)), orgId, boundTo(id)).ciphertext;
      const previous = previous_secret === null ? null : reencrypt(previous_secret);
      const columns = { secret: reencrypt(secret), previous_secret: previous, master_key_id: masterKeys.currentId };
      await db.updateTable("channels").set(columns).where("id", "=", id).execute();
    }
    reencrypted += rows.length;
  }
  const foreign = await db
    .selectFrom("channels")
    .select(["master_key_id", (select) => select.fn.countAll<string>().as("count")])
    .where("master_key_id", "!=", masterKeys.currentId)
    .groupBy("master_key_id")
    .executeTakeFirst();
  requireNoForeignRows(foreign, masterKeys, "channels");
  return reencrypted;
}

/** Additional data of the encryption, so that a ciphertext of another channel cannot be used. */
function boundTo(id: string): string {
  return `channel|${id}`;
}

function columnsOf({ name, settings, enabled, heartbeatSeconds }: CheckedChannel) {
  return { name, settings: JSON.stringify(settings), enabled, heartbeat_seconds: heartbeatSeconds };
}

/** Kind → the setting that is its secret, and what that is. A webhook's secret is generated, e-mail channels have none. */
const REQUIRED_SECRETS: Readonly<Partial<Record<ChannelKind, readonly [setting: string, meaning: string]>>> = {
  slack: ["url", "the URL of the incoming webhook"],
  msteams: ["url", "the URL of a workflow that starts when a Teams webhook request is received"],
  pagerduty: ["routing_key", "the integration key of an Events API v2 integration"],
  opsgenie: ["api_key", "the key of an API integration"],
};

function requireSecret({ kind, secret = "" }: CheckedChannel): string {
  const required = REQUIRED_SECRETS[kind];
  if (required && secret === "") throw invalidField(`settings.${required[0]}`, `is required: ${required[1]}`);
  return secret;
}
