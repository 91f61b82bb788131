// The entries of the audit log in the database. Invariant: they are added and forgotten, never changed.
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
  /** Written as JSON text. */
  subject: ColumnType<Record<string, unknown>, string, never>;
}

export interface AuditTables {
  audit_log: AuditTable;
}
