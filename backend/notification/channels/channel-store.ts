// Stores the channels of all organisations in the database. Invariants: every statement names the organisation, except those at startup;
// secrets are encrypted with the master key, bound to organisation and channel, and leave this file only for a single attempt to send, or
// for the user who created them.
import { randomUUID } from "node:crypto";
import type { Kysely, Selectable, Transaction } from "kysely";
import type { MasterKeys } from "../../tenants/enrolment/master-key.ts";
import { ApiError, StartError } from "../../errors.ts";
import { notFound, invalidField } from "../../http/schemas.ts";
import { MAX_CHANNELS_PER_ORG } from "../limits.ts";
import { type CheckedChannel } from "./channel-settings.ts";
import type { Channel, OpenChannel } from "../model/message.ts";
import { newSigningSecret } from "./webhook.ts";
import { type ChannelsTable, markDue, type NotificationTables } from "../model/table.ts";
import { lockOrg, type OrgTable, tenantDatabase } from "../../engines/relational/tenant-database.ts";

export type ChannelRow = Selectable<ChannelsTable>;
type Trx = Transaction<NotificationTables>;

const UNIQUE_VIOLATION = "23505";
/** How long a receiver has to adopt its new secret. */
export const ROTATION_MS = 24 * 3_600_000;
const REENCRYPTION_BATCH = 500;

export interface ChannelStoreOptions {
  readonly db: Kysely<NotificationTables>;
  readonly masterKeys: MasterKeys;
  readonly now?: () => number;
}

/** A channel, with its secret if one was generated. */
export interface MadeChannel {
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
    const own = tenantDatabase(this.#db, orgId);
    return await own.selectFrom("channels").selectAll().where("org_id", "=", orgId).orderBy("name").orderBy("id").execute();
  }

  /** The channel with decrypted secrets, for one attempt; undefined also for a channel of another organisation. */
  async open(orgId: string, id: string): Promise<OpenChannel | undefined> {
    const row = await this.#find(tenantDatabase(this.#db, orgId), orgId, id);
    return row && this.opened(row);
  }

  opened(row: ChannelRow): OpenChannel {
    const { master_key_id, secret, previous_secret, secret_rotated_at } = row;
    const read = (ciphertext: string) => this.#masterKeys.decrypt({ ciphertext, master_key_id }, row.org_id, boundTo(row.id));
    const rotates = previous_secret !== null && (secret_rotated_at?.getTime() ?? 0) + ROTATION_MS > this.#now();
    return { ...channelOf(row), secret: read(secret), previousSecret: rotates ? read(previous_secret) : undefined };
  }

  /** Throws ApiError `conflict` if the name is taken, `limit_reached`, `invalid_field` if a secret is missing. */
  async create(orgId: string, checked: CheckedChannel): Promise<MadeChannel> {
    const id = randomUUID();
    const isWebhook = checked.kind === "webhook";
    const secret = isWebhook ? newSigningSecret() : requiredSecret(checked);
    const row = await this.#change(orgId, checked.name, async (trx) => {
      await requireRoom(trx, orgId);
      const values = {
        id,
        org_id: orgId,
        kind: checked.kind,
        ...columnsOf(checked),
        ...this.#sealed(orgId, id, secret),
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
      const former = await this.#required(trx, orgId, id);
      if (former.kind !== checked.kind) throw invalidField("kind", `is ${former.kind} and cannot be changed: make another channel`);
      const secret = checked.secret === undefined ? {} : this.#sealed(orgId, id, checked.secret);
      // If the heartbeat interval changes, the interval starts now.
      const begins = former.heartbeat_seconds === checked.heartbeatSeconds ? {} : { last_heartbeat_at: null };
      return await trx
        .updateTable("channels")
        .set({ ...columnsOf(checked), ...secret, ...begins })
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
  async rotate(orgId: string, id: string): Promise<MadeChannel & { readonly signingSecret: string }> {
    const signingSecret = newSigningSecret();
    const row = await this.#change(orgId, "", async (trx) => {
      const former = await this.#required(trx, orgId, id);
      if (former.kind !== "webhook") throw new ApiError("conflict", "only a webhook has a signing secret: replace the channel's settings");
      const { secret } = this.opened(former);
      const before = this.#sealed(orgId, id, secret).secret;
      return await trx
        .updateTable("channels")
        .set({ ...this.#sealed(orgId, id, signingSecret), previous_secret: before, secret_rotated_at: new Date(this.#now()) })
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
      const row = await this.#required(trx, orgId, id);
      const routes = await trx.selectFrom("routes").select(["position", "channel_ids"]).where("org_id", "=", orgId).execute();
      const using = routes.filter((route) => route.channel_ids.includes(id)).length;
      if (using > 0)
        throw new ApiError(
          "conflict",
          `${using === 1 ? "a route leads" : `${using} routes lead`} to this channel: take it out there first`,
        );
      await trx.deleteFrom("channels").where("org_id", "=", orgId).where("id", "=", id).execute();
      return row;
    });
  }

  #sealed(orgId: string, id: string, secret: string): { secret: string; master_key_id: string } {
    const { ciphertext, master_key_id } = this.#masterKeys.encrypt(secret, orgId, boundTo(id));
    return { secret: ciphertext, master_key_id };
  }

  async #find(db: Kysely<NotificationTables>, orgId: string, id: string): Promise<ChannelRow | undefined> {
    return await db.selectFrom("channels").selectAll().where("org_id", "=", orgId).where("id", "=", id).executeTakeFirst();
  }

  async #required(trx: Trx, orgId: string, id: string): Promise<ChannelRow> {
    const row = await this.#find(trx, orgId, id);
    if (!row) throw notFound("channel");
    return row;
  }

  /** Serialises changes to an organisation's channels; the dispatcher then evaluates its alerts soon. */
  async #change<T>(orgId: string, name: string, change: (trx: Trx) => Promise<T>): Promise<T> {
    try {
      return await tenantDatabase(this.#db, orgId)
        .transaction()
        .execute(async (trx) => {
          await lockOrg(trx.$extendTables<OrgTable>(), orgId);
          const changed = await change(trx);
          await markDue(trx, orgId, new Date(this.#now()));
          return changed;
        });
    } catch (error) {
      if ((error as { code?: string }).code !== UNIQUE_VIOLATION) throw error;
      throw new ApiError("conflict", `name: there is a channel named ${JSON.stringify(name)} already; choose another name`);
    }
  }
}

/**
 * Re-encrypts every secret with the current master key. Returns the number of changed channels. Throws if no available master key decrypts
 * a secret.
 */
export async function reencryptChannels(db: Kysely<NotificationTables>, masterKeys: MasterKeys): Promise<number> {
  let moved = 0;
  const older = masterKeys.ids.filter((id) => id !== masterKeys.currentId);
  while (older.length > 0) {
    const rows = await db.selectFrom("channels").selectAll().where("master_key_id", "in", older).limit(REENCRYPTION_BATCH).execute();
    if (rows.length === 0) break;
    for (const { id, org_id, secret, previous_secret, master_key_id } of rows) {
      const anew = (ciphertext: string) =>
        masterKeys.encrypt(masterKeys.decrypt({ ciphertext, master_key_id }, org_id, boundTo(id)), org_id, boundTo(id)).ciphertext;
      const previous = previous_secret === null ? null : anew(previous_secret);
      const row = { secret: anew(secret), previous_secret: previous, master_key_id: masterKeys.currentId };
      await db.updateTable("channels").set(row).where("id", "=", id).execute();
    }
    moved += rows.length;
  }
  const foreign = await db
    .selectFrom("channels")
    .select("id")
    .where("master_key_id", "!=", masterKeys.currentId)
    .limit(1)
    .executeTakeFirst();
  if (foreign)
    throw new StartError(
      "secrets of channels were encrypted under another master key: set MASTER_KEY (or MASTER_PREVIOUS_KEY) to the one they were made with",
    );
  return moved;
}

export function channelOf({ id, org_id, name, kind, settings, enabled }: ChannelRow): Channel {
  return { id, orgId: org_id, name, kind, settings, enabled };
}

/** Additional data of the encryption, so that a ciphertext of another channel cannot be used. */
function boundTo(id: string): string {
  return `channel|${id}`;
}

function columnsOf({ name, settings, enabled, heartbeatSeconds }: CheckedChannel) {
  return { name, settings: JSON.stringify(settings), enabled, heartbeat_seconds: heartbeatSeconds };
}

/** E-mail channels have no secret. */
function requiredSecret({ kind, secret }: CheckedChannel): string {
  if (kind === "slack" && secret === undefined) throw invalidField("settings.url", "is required: the URL of the incoming webhook");
  if (kind === "pagerduty" && secret === undefined)
    throw invalidField("settings.routing_key", "is required: the integration key of an Events API v2 integration");
  return secret ?? "";
}

async function requireRoom(trx: Trx, orgId: string): Promise<void> {
  const { count } = await trx
    .selectFrom("channels")
    .select((select) => select.fn.countAll<string>().as("count"))
    .where("org_id", "=", orgId)
    .executeTakeFirstOrThrow();
  if (Number(count) >= MAX_CHANNELS_PER_ORG)
    throw new ApiError("limit_reached", `your organisation has ${MAX_CHANNELS_PER_ORG} channels already: remove some first`);
}
