// Limits of read tokens, users and invitations to values of labels: what can be set by whom, and when a change takes effect. Two replicas
// share the database and the clock.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accountsApp, type AccountsApp, brief, type Clock, makeOrg, type Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import type { LabelLimits } from "../../admission/limited-labels.ts";
import type { AccountTables } from "../../auth/sessions/account-tables.ts";
import { labelLimitsOf } from "../../http/request-identity.ts";
import { endpoint, addRoutes } from "../../http/route.ts";

const SHOP = { "k8s.namespace.name": ["shop"] };

describeOnEachStore((store) => {
  const clock: Clock = { ms: Date.parse("2026-11-21T09:00:00Z") };
  let backend: AccountsApp;
  let replica: AccountsApp;
  let org: Org;

  beforeAll(async () => {
    const options: Parameters<typeof accountsApp>[1] = {
      clock,
      routes: (app, guards) => {
        const handler = async (request: Parameters<typeof labelLimitsOf>[0]) => ({ limits: labelLimitsOf(request) ?? null });
        addRoutes(app, guards, [
          { ...endpoint("GET", "/filtered", "reader"), limited: "filtered", handler },
          { ...endpoint("GET", "/undeclared", "reader"), handler },
          { ...endpoint("GET", "/viewers", "viewer"), handler },
        ]);
      },
    };
    backend = await accountsApp(store.database, options);
    replica = await accountsApp(store.database, options);
    org = await makeOrg(backend);
  });
  afterAll(async () => {
    await replica?.[Symbol.asyncDispose]();
    await backend?.[Symbol.asyncDispose]();
  });

  const post = (path: string, body: object, bearer = org.token) => backend.call("POST", path, { bearer, body });
  const limitsOf = async (bearer: string, on = backend): Promise<LabelLimits | null> =>
    (await on.call("GET", "/filtered", { bearer })).json<{ limits: LabelLimits | null }>().limits;
  async function addUser(label_limits: LabelLimits | null): Promise<{ id: string; bearer: string; email: string }> {
    const user = { email: `${randomUUID()}@example.com`, password: randomUUID() };
    const made = await post("/api/users", { ...user, role: "viewer", label_limits });
    expect(made.statusCode).toBe(201);
    return { id: made.json<{ user_id: string }>().user_id, email: user.email, bearer: await backend.login(user.email, user.password) };
  }

  test("a limited read token is listed with its limits, and refused by each route that does not declare that it filters", async () => {
    const label_limits = { ...SHOP, source: ["cart", "web"] };
    const { token } = (await post("/api/read-tokens", { name: "shop", label_limits })).json<{ token: string }>();
    expect(await limitsOf(token)).toEqual(label_limits);
    const refusal = await backend.call("GET", "/undeclared", { bearer: token });
    expect([brief(refusal), refusal.json().message]).toEqual([[403, "forbidden"], expect.stringContaining("limited to values of labels")]);
    const listed = (await backend.call("GET", "/api/read-tokens", { bearer: org.token })).json<{ label_limits: LabelLimits }[]>();
    expect(listed.map((row) => row.label_limits)).toContainEqual(label_limits);
  });

  test("a limited user sees neither users nor tokens, and can neither create nor change one", async () => {
    const { id, bearer } = await addUser(SHOP);
    expect(await limitsOf(bearer)).toEqual(SHOP);
    for (const path of ["/undeclared", "/viewers", "/api/users", "/api/read-tokens", "/api/issuers"])
      expect(brief(await backend.call("GET", path, { bearer })), path).toEqual([403, "forbidden"]);
    expect(brief(await post("/api/read-tokens", { name: "more" }, bearer))).toEqual([403, "forbidden"]);
    const lift = await backend.call("PUT", `/api/users/${id}/label-limits`, { bearer, body: { label_limits: null } });
    expect(brief(lift)).toEqual([403, "forbidden"]);
    const rise = await backend.call("PUT", `/api/users/${id}/role`, { bearer, body: { role: "admin" } });
    expect(brief(rise)).toEqual([403, "forbidden"]);
    expect(await limitsOf(bearer)).toEqual(SHOP);
  });

  test("a change of a user's limits takes effect here at once, and in another replica within 5 s", async () => {
    const { id, bearer } = await addUser(null);
    expect([await limitsOf(bearer), await limitsOf(bearer, replica)]).toEqual([null, null]);
    const changed = await backend.call("PUT", `/api/users/${id}/label-limits`, { bearer: org.token, body: { label_limits: SHOP } });
    expect([changed.statusCode, changed.json().label_limits]).toEqual([200, SHOP]);
    expect(await limitsOf(bearer)).toEqual(SHOP);
    clock.ms += 5000;
    expect(await limitsOf(bearer, replica)).toEqual(SHOP);
    await backend.call("PUT", `/api/users/${id}/label-limits`, { bearer: org.token, body: { label_limits: { source: ["cart"] } } });
    clock.ms += 5000;
    expect(await limitsOf(bearer, replica)).toEqual({ source: ["cart"] });
  });

  test("only a viewer can have limits, and a limited user becomes administrator only without them", async () => {
    const user = { email: `${randomUUID()}@example.com`, password: randomUUID(), role: "admin" };
    expect(brief(await post("/api/users", { ...user, label_limits: SHOP }))).toEqual([400, "invalid_field"]);
    expect(brief(await post("/api/invitations", { email: user.email, role: "admin", label_limits: SHOP }))).toEqual([400, "invalid_field"]);
    const { id } = await addUser(SHOP);
    const role = () => backend.call("PUT", `/api/users/${id}/role`, { bearer: org.token, body: { role: "admin" } });
    expect(brief(await role())).toEqual([400, "invalid_field"]);
    await backend.call("PUT", `/api/users/${id}/label-limits`, { bearer: org.token, body: { label_limits: null } });
    expect((await role()).statusCode).toBe(200);
  });

  test("an administrator with limits, as single sign-on can make one, is not the other administrator of an organisation", async () => {
    const { token: bearer } = await makeOrg(backend);
    const { user_id } = (await backend.call("GET", "/api/users", { bearer })).json<{ user_id: string }[]>()[0] ?? { user_id: "" };
    const other = { email: `${randomUUID()}@example.com`, password: randomUUID(), role: "viewer", label_limits: SHOP };
    const { user_id: id } = (await post("/api/users", other, bearer)).json<{ user_id: string }>();
    const users = store.database.tables<AccountTables>().updateTable("users").set({ role: "admin" });
    await users.where("id", "=", id).execute();
    const step = () => backend.call("PUT", `/api/users/${user_id}/role`, { bearer, body: { role: "viewer" } });
    expect(brief(await step())).toEqual([409, "conflict"]);
  });

  test("an invited user has the limits of the invitation", async () => {
    const email = `${randomUUID()}@example.com`;
    const invited = (await post("/api/invitations", { email, role: "viewer", label_limits: SHOP })).json<{ token: string }>();
    const password = randomUUID();
    const accepted = await backend.call("POST", "/api/auth/invitation/accept", { body: { token: invited.token, password } });
    expect(accepted.statusCode).toBe(204);
    expect(await limitsOf(await backend.login(email, password))).toEqual(SHOP);
  });

  test.each([
    ["no label", {}],
    ["an unknown label", { ...SHOP, "k8s.pod.name": ["a"] }],
    ["another spelling", { k8s_namespace_name: ["shop"] }],
    ["another case", { "K8S.namespace.name": ["shop"] }],
    ["no value", { source: [] }],
    ["an empty value", { source: [""] }],
    ["a control character", { source: ["a\nb"] }],
    ["51 values", { source: Array.from({ length: 51 }, (_, at) => `s${at}`) }],
    ["a text that is too long", { source: Array.from({ length: 50 }, (_, at) => `${at}${"x".repeat(180)}`) }],
    ["a number", { source: [1, null] }],
  ])("limits with %s are rejected", async (_name, label_limits) => {
    expect(brief(await post("/api/read-tokens", { name: "x", label_limits }))).toEqual([400, "invalid_field"]);
  });

  test("limits with the name __proto__ are rejected", async () => {
    const body = '{"name":"x","label_limits":{"source":["a"],"__proto__":{"k8s.namespace.name":["shop"]}}}';
    const headers = { authorization: `Bearer ${org.token}`, "content-type": "application/json" };
    const answer = await backend.call("POST", "/api/read-tokens", { headers, body });
    expect(answer.statusCode).toBe(400);
  });
});
