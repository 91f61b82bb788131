// The dependencies of the enrolment routes. Invariant: types only, so that routes do not import each other through this file.
import type { Kysely } from "kysely";
import type { IngestTokens } from "../../auth/ingest-tokens/ingest-tokens.ts";
import type { Guards } from "../../auth/request-identity.ts";
import type { KeySource } from "../../auth/signed-requests.ts";
import type { KeyCache } from "./key-cache.ts";
import type { MasterKeys } from "./master-key.ts";
import type { EnrolmentTables } from "./table.ts";

export interface EnrolmentDeps {
  db: Kysely<EnrolmentTables>;
  masterKeys: MasterKeys;
  keys: KeySource & Pick<KeyCache, "forget">;
  guards: Guards;
  ingestTokens: Pick<IngestTokens, "requireEnabled" | "forget">;
  /** Unix milliseconds. */
  now: () => number;
  /** Maximum of nodes per cluster. */
  maxNodes?: number;
  /** Rows per page of a list: hosts, or clusters and their nodes. */
  pageRows?: number;
}
