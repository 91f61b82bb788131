// The rows of dashboards and saved views.
import { asUser, creates, type Row, row } from "./case.ts";
import { red } from "./tenants.ts";

const PANEL = {
  title: "up",
  kind: "timeseries",
  source: "metrics",
  width: 6,
  queries: [{ query: 'up{node="$node"}', legend: "{{node}}" }],
};
const dashboard = (more: object = {}): object => ({ name: crypto.randomUUID(), description: "", variables: [], panels: [PANEL], ...more });
const view = (more: object = {}): object => ({ name: crypto.randomUUID(), address: "#/logs?q=level:error", ...more });

type Make = (more?: object) => object;

const wrong: Readonly<Record<string, readonly (readonly [name: string, more: object])[]>> = {
  "/api/dashboards": [
    ["no name", { name: "" }],
    ["a control character in its name", { name: "a\u001b[31m" }],
    ["a kind of panel that does not exist", { panels: [{ ...PANEL, kind: "geomap" }] }],
    ["a panel that is too wide", { panels: [{ ...PANEL, width: 13 }] }],
    ["too many panels", { panels: Array.from({ length: 101 }, () => PANEL) }],
    ["a query that is too long", { panels: [{ ...PANEL, queries: [{ query: "a".repeat(4001) }] }] }],
    ["a variable that is no word", { variables: [{ name: "a b" }] }],
  ],
  "/api/views": [
    ["no name", { name: "" }],
    ["an address outside of the console", { address: "https://evil.example/" }],
    ["an address that is a script", { address: "javascript:alert(1)" }],
    ["a control character in its address", { address: "#/logs?q=\u0000" }],
  ],
};

function rowsOf(path: string, body: Make): Row[] {
  const one = `${path}/{id}`;
  const refused = (method: string) =>
    (wrong[path] ?? []).map(([name, more]) =>
      asUser(
        name,
        method,
        () => red.token,
        400,
        body(more),
        "invalid_field",
        method === "PUT" ? `${path}/${crypto.randomUUID()}` : undefined,
      ),
    );
  return [
    row("POST", path, "admin", () => {
      const twice = body();
      return [creates("saved", twice), asUser("a name that is taken", "POST", () => red.token, 409, twice, "conflict"), ...refused("POST")];
    }),
    row("PUT", one, "admin", () => [...refused("PUT")]),
  ];
}

export const SAVED_ROWS: Row[] = [...rowsOf("/api/dashboards", dashboard), ...rowsOf("/api/views", view)];
