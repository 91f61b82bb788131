// `atherops usage`, `limits` and `audit` as operators and administrators run them, against the real routes over HTTP.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accountsApp, makeOrg, OPERATOR, type AccountsApp, type Org } from "../../test/fixtures/accounts-app.ts";
import { relationalEngines, type OpenedEngine } from "../../test/fixtures/postgres.ts";
import { createLog } from "../log.ts";
import { UsageCounter } from "../tenants/usage/counter.ts";
import { OrgLimits } from "../tenants/usage/usage-limits.ts";
import { registerUsageRoutes } from "../tenants/usage/usage-routes.ts";
import { type Ran, runClient } from "./run-client.fixture.ts";

const folder = mkdtempSync(join(tmpdir(), "atherops-client-"));
let opened: OpenedEngine | undefined;
let backend: AccountsApp;
let org: Org;
let url: string;

beforeAll(async () => {
  opened = await relationalEngines[0]?.open();
  if (!opened) throw new Error("no engine");
  const { database } = opened;
  const limits = new OrgLimits({ db: database.tables(), defaults: { bytesPerSecond: 0, recordsPerSecond: 0, activeSeries: 0 } });
  backend = await accountsApp(database, {
    clock: { ms: Date.now() },
    pageRows: 3,
    routes: (app, guards) => registerUsageRoutes(app, { db: database.tables(), limits, guards }),
  });
  url = await backend.app.listen({ host: "127.0.0.1", port: 0 });
  org = await makeOrg(backend, "shop");
  for (const name of ["b", "c", "d"]) await makeOrg(backend, name);
  await using usage = new UsageCounter({ db: database.tables(), log: createLog("silent") });
  usage.count(org.orgId, "logs", 1234, 56);
});
afterAll(async () => {
  await backend?.[Symbol.asyncDispose]();
  await opened?.end();
  rmSync(folder, { recursive: true, force: true });
});

const atherops = (args: string, who: string): Promise<Ran> => runClient(args, { url, sessionFile: join(folder, who) });
const login = async ({ email, password }: { email: string; password: string }) => {
  expect((await runClient(`login --email ${email}`, { url, sessionFile: join(folder, email), input: `${password}\n` })).code).toBe(0);
  return email;
};

test("prints usage as a table of days and signals", async () => {
  const admin = await login(org);
  const { code, out } = await atherops("usage --days 2", admin);
  expect([code, out.split("\n")[0]?.split(/ +/)]).toEqual([0, ["DAY", "SIGNAL", "BYTES", "RECORDS", "ACTIVE_SERIES"]]);
  expect(out).toMatch(/\d{4}-\d\d-\d\d +logs +1\.234 kB +56\b.*\n/);
  expect(await atherops("usage --days 1000", admin)).toMatchObject({ code: 2, err: expect.stringMatching(/^atherops: --days: /) });
});

test("prints the usage of all organisations with shares of limits, for operators only", async () => {
  const { code, out } = await atherops("usage --all --days 2", await login(OPERATOR));
  expect([code, out.split("\n")[0]?.split(/ +/).slice(0, 5)]).toEqual([0, ["ORGANISATION", "SIGNAL", "BYTES", "RECORDS", "SHARE_OF_ALL"]]);
  expect(out).toMatch(/shop +logs +1\.234 kB +56 +100 % +–/);
  expect((await atherops("usage --all", await login(org))).code).toBe(1);
});

test("an operator sets limits by name among many organisations, and the organisation sees them", async () => {
  const [operator, admin] = [await login(OPERATOR), await login(org)];
  expect((await atherops("orgs", operator)).out.split("\n").length).toBe(7);
  expect((await atherops("limits set d --records-per-second 5", operator)).code).toBe(0);
  const set = await atherops("limits set shop --bytes-per-second 1000", operator);
  expect(set.out).toMatch(/BYTES_PER_SECOND +RECORDS_PER_SECOND +ACTIVE_SERIES\n1000 +unlimited +unlimited\n/);
  expect((await atherops("limits", admin)).out).toBe(set.out);
  expect((await atherops("limits show d", operator)).out).toMatch(/\nunlimited +5 +unlimited\n/);
  expect((await atherops("limits set d --bytes-per-second 7", operator)).out).toMatch(/\n7 +5 +unlimited\n/);
  expect((await atherops("limits set d --records-per-second default", operator)).out).toMatch(/\n7 +unlimited +unlimited\n/);
  expect((await atherops("limits set d", operator)).err).toContain("nothing to set");
  expect((await atherops("limits show d", operator)).out).toMatch(/\n7 +unlimited +unlimited\n/);
  expect((await atherops("limits set nowhere --active-series 1", operator)).err).toContain("organisation nowhere not found");
  expect((await atherops("limits set shop --bytes-per-second much", operator)).err).toContain(
    "--bytes-per-second much: must be a whole number, or `default`",
  );
  expect((await atherops("limits set shop --active-series 1", admin)).err).toContain("403 forbidden");
});

test("audit prints the newest entries first over pages, without terminal control sequences", async () => {
  const [operator, admin] = [await login(OPERATOR), await login(org)];
  const entry = { actor: undefined, actorId: undefined, actorOrgId: undefined, address: "192.0.2.9", requestId: "r" };
  backend.trail.add({ ...entry, action: "cluster.register", orgId: org.orgId, subject: { cluster_name: "\u001b[2Jnorth\u202e" } });
  await backend.trail.settled();
  for (const limit of ["0", "many"])
    expect((await atherops(`audit --limit ${limit}`, admin)).err).toContain(`--limit ${limit}: must be a whole number of at least 1`);
  const { out } = await atherops("audit --limit 1", admin);
  expect(out).toContain("cluster.register");
  expect(out).not.toMatch(/[\u001b\u202e]/);
  const all = (await atherops("--json audit --organisation shop", operator)).out;
  const rows = JSON.parse(all) as { action: string; org_id: string }[];
  expect(rows.length).toBeGreaterThan(3);
  expect(new Set(rows.map(({ org_id }) => org_id))).toEqual(new Set([org.orgId]));
  expect((await atherops("audit --action org.create --limit 2", operator)).out.trim().split("\n")).toHaveLength(3);
});
