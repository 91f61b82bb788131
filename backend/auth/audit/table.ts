// The table of the audit log. Invariant: entries are inserted and expire, but are never changed.
import type { ColumnType } from "kysely";

export interface AuditTable {
  id: string;
  org_id: string | null;
  at: Date;
  action: string;
  actor: string | null;
  actor_id: string | null;
  actor_org_id: string | null;
  address: string;
  request_id: string;
  /** JSON text. */
  subject: ColumnType<Record<string, unknown>, string, never>;
}

export interface AuditTables {
  audit_log: AuditTable;
}
