// What the routes of enrolment are given. Invariant: types only, so that a route imports no other route by way of it.
import type { Kysely } from "kysely";
import type { Guards } from "../auth/request-identity.ts";
import type { KeySource } from "../auth/signed-requests.ts";
import type { KeyCache } from "./key-cache.ts";
import type { MasterKeys } from "./master-key.ts";
import type { EnrolmentTables } from "./table.ts";

export interface EnrolmentDeps {
  db: Kysely<EnrolmentTables>;
  masterKeys: MasterKeys;
  keys: KeySource & Pick<KeyCache, "forget">;
  guards: Guards;
  /** Unix milliseconds. */
  now: () => number;
  /** Nodes of one cluster. */
  maxNodes?: number;
  /** Of a page of a list: hosts, or clusters and their nodes. */
  pageRows?: number;
}
