// Dashboards and saved views over HTTP, on both engines of the relational store.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accountsApp, type AccountsApp, makeOrg, type Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import { MAX_DASHBOARDS } from "../tenant-limits.ts";
import { registerSavedRoutes } from "./saved-item-routes.ts";
import type { SavedTables } from "./saved-item-table.ts";

const PANEL = {
  title: "<b>up</b>",
  kind: "timeseries",
  source: "metrics",
  unit: "s",
  width: 6,
  queries: [{ query: "up", legend: "{{a}}" }],
};
const dashboard = (name: string, more: object = {}) => ({
  name,
  description: "ä",
  variables: [{ name: "node", values: ["a"] }],
  panels: [PANEL],
  ...more,
});

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let [red, blue]: Org[] = [];
  beforeAll(async () => {
    const routes: NonNullable<Parameters<typeof accountsApp>[1]>["routes"] = (app, guards) =>
      registerSavedRoutes(app, { db: store.database.tables(), guards, pageRows: 2 });
    backend = await accountsApp(store.database, { routes });
    [red, blue] = [await makeOrg(backend), await makeOrg(backend)];
  });
  afterAll(async () => await backend?.[Symbol.asyncDispose]());

  const call = (method: "GET" | "POST" | "PUT" | "DELETE", path: string, org: Org | undefined, body?: object) =>
    backend.call(method, path, { bearer: org?.token, body });
  const save = async (org: Org | undefined, body: object): Promise<string> => {
    const answer = await call("POST", "/api/dashboards", org, body);
    expect(answer.statusCode, answer.body).toBe(201);
    return answer.json().id;
  };

  test("returns a dashboard as saved, with its author, and a list without panels", async () => {
    const id = await save(red, dashboard("whole"));
    const read = (await call("GET", `/api/dashboards/${id}`, red)).json();
    expect(read).toMatchObject({ ...dashboard("whole"), id, created_by: red?.email, updated_by: red?.email });
    const [listed] = (await call("GET", "/api/dashboards", red)).json();
    expect(listed).toMatchObject({ id, name: "whole" });
    expect(listed).not.toHaveProperty("panels");
    await call("PUT", `/api/dashboards/${id}`, red, dashboard("renamed", { panels: [] }));
    expect((await call("GET", `/api/dashboards/${id}`, red)).json()).toMatchObject({ name: "renamed", panels: [] });
    expect((await call("DELETE", `/api/dashboards/${id}`, red)).statusCode).toBe(204);
    expect((await call("GET", `/api/dashboards/${id}`, red)).statusCode).toBe(404);
  });

  test("rejects a name that is in use in the organisation, also when renaming", async () => {
    const org = await makeOrg(backend);
    const id = await save(org, dashboard("first"));
    await save(org, dashboard("second"));
    await save(blue, dashboard("first"));
    expect((await call("POST", "/api/dashboards", org, dashboard("first"))).json()).toMatchObject({ error: "conflict" });
    expect((await call("PUT", `/api/dashboards/${id}`, org, dashboard("second"))).json()).toMatchObject({ error: "conflict" });
    // A view is another kind.
    expect((await call("POST", "/api/views", org, { name: "first", address: "#/logs" })).statusCode).toBe(201);
  });

  test("pages a list, and a view in it has its address", async () => {
    const org = await makeOrg(backend);
    for (const name of ["a", "b", "c"]) await call("POST", "/api/views", org, { name, address: `#/logs?q=${name}` });
    const first = await call("GET", "/api/views", org);
    expect(first.json()).toMatchObject([
      { name: "a", address: "#/logs?q=a" },
      { name: "b", address: "#/logs?q=b" },
    ]);
    const next = /<([^>]+)>/.exec(String(first.headers["link"]))?.[1] ?? "";
    expect((await call("GET", next, org)).json()).toMatchObject([{ name: "c" }]);
  });

  test("limits the dashboards of an organisation", async () => {
    const org = await makeOrg(backend);
    const db = store.database.tables<SavedTables>();
    const id = await save(org, dashboard("first"));
    const row = await db.selectFrom("saved_items").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
    const others = Array.from({ length: MAX_DASHBOARDS - 2 }, (_, at) => ({ ...row, id: randomUUID(), name: `d${at}` }));
    await db.insertInto("saved_items").values(others).execute();
    await save(org, dashboard("last"));
    expect((await call("POST", "/api/dashboards", org, dashboard("one more"))).json()).toMatchObject({ error: "limit_reached" });
    expect((await call("POST", "/api/dashboards", blue, dashboard("of another"))).statusCode).toBe(201);
  });
});
