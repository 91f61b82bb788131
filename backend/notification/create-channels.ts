// Creates the channels part of a backend from its settings: their rows, their routes, and the sender that both the outbox and a channel's
// test use.
import type { Kysely } from "kysely";
import type { AccountTables } from "../auth/sessions/account-tables.ts";
import type { MasterKeys } from "../tenants/enrolment/master-key.ts";
import type { Log } from "../log.ts";
import type { Secrets, Settings } from "../settings.ts";
import { createChannelRoutes } from "./api/channel-routes.ts";
import { ChannelStore } from "./channels/channel-store.ts";
import { Email } from "./channels/email.ts";
import { Outgoing } from "../outgoing/outgoing.ts";
import { createSend } from "./channels/send.ts";
import type { NotificationTables } from "./model/notification-tables.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";

export interface ChannelsOptions {
  readonly db: Kysely<NotificationTables & AccountTables>;
  readonly masterKeys: MasterKeys;
  readonly settings: Pick<Settings, "publicUrl" | "notifyAllowedNetworks" | "notifyCaFile" | "noProxy" | "smtpFrom" | "smtpAllowedDomains">;
  readonly secrets: Pick<Secrets, "httpsProxy" | "smtpUrl">;
  readonly log: Log;
  readonly now?: () => number;
}

export type Channels = ReturnType<typeof startChannels>;

export function startChannels({ db, masterKeys, settings, secrets, log, now }: ChannelsOptions) {
  const { notifyAllowedNetworks: allowedNetworks, notifyCaFile: caFile, noProxy, smtpFrom: from, smtpAllowedDomains } = settings;
  const outgoing = new Outgoing({ allowedNetworks, caFile, httpsProxy: secrets.httpsProxy, noProxy, log });
  const findUsers = async (orgId: string, addresses: readonly string[]) => await emailsOfUsers(db, orgId, addresses);
  const { smtpUrl } = secrets;
  const email =
    smtpUrl !== undefined && from !== undefined
      ? new Email({ smtpUrl, from, allowedDomains: smtpAllowedDomains, caFile, findUsers, log })
      : undefined;
  const tables = db.$pickTables<keyof NotificationTables>();
  const store = new ChannelStore({ db: tables, masterKeys, ...(now && { now }) });
  const send = createSend({ outgoing, email, ...(now && { now }) });
  const externalUrl = settings.publicUrl ?? "";
  const orgName = async (orgId: string) =>
    (await tenantDatabase(db, orgId).selectFrom("orgs").select("name").where("id", "=", orgId).executeTakeFirst())?.name ?? "";
  return {
    store,
    send,
    externalUrl,
    /** `changed` is called when receivers may have changed. */
    createRoutes: (changed?: () => void) =>
      createChannelRoutes({
        channels: store,
        check: { outgoing, email },
        send,
        externalUrl,
        orgName,
        ...(changed && { changed }),
        ...(now && { now }),
      }),
  };
}

/** E-mail addresses are stored in lower case. */
async function emailsOfUsers(db: Kysely<AccountTables>, orgId: string, addresses: readonly string[]): Promise<string[]> {
  const own = tenantDatabase(db, orgId);
  const rows = await own.selectFrom("users").select("email").where("org_id", "=", orgId).where("email", "in", addresses).execute();
  return rows.map(({ email }) => email);
}
