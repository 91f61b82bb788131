// Asks every GET route for times that a person or a program can write but no engine takes: before 1970, in the year 9999, as numbers without
// end. No answer is a 5xx. Routes and parameters are those of docs/openapi.json.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { adminPassword, backendPlace, login, makeTenant, startBackend } from "../fixtures/backend-process.ts";
import { call, ROOT, temporaryFolder } from "../fixtures/processes.ts";

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly schema: { readonly format?: string; readonly enum?: readonly string[] };
}

const NAMES = new Set("start end time ts endTs lookback since step interval cursor".split(" "));
const VALUES =
  "0030-12-01T14:19:42.98Z 0970-06-01T08:55:32Z 1969-12-31T23:59:59Z 9999-12-31T23:59:59Z -1 0 1e300 99999999999999999999".split(" ");

test("no time that a reader asks for is an internal error", { timeout: 180_000 }, async () => {
  using folder = temporaryFolder();
  const place = await backendPlace(folder.path);
  await using backend = await startBackend(place);
  const operator = await login(place.apiUrl, "admin@localhost", adminPassword(place));
  const { token: bearer } = await makeTenant(place.apiUrl, operator, "red");
  const rule = await call("POST", `${place.apiUrl}/alerting/rules`, { bearer, body: { name: "r", severity: "info", expr: "up > 0" } });
  const { paths } = JSON.parse(readFileSync(join(ROOT, "docs/openapi.json"), "utf8")) as {
    paths: Record<string, { get?: { parameters?: readonly Parameter[] } }>;
  };
  const failed: string[] = [];
  let asked = 0;
  for (const [path, { get }] of Object.entries(paths)) {
    // The response of a tail never ends.
    if (path.endsWith("/tail")) continue;
    const parameters = (get?.parameters ?? []).filter((parameter) => parameter.in === "query");
    const required = parameters.flatMap(({ name, schema, ...each }) => (each.required ? [[name, schema.enum?.[0] ?? "x"] as const] : []));
    for (const { name, schema } of parameters) {
      if (schema.format !== "date-time" && !NAMES.has(name)) continue;
      for (const value of VALUES) {
        const query = new URLSearchParams({ ...Object.fromEntries(required), [name]: value });
        // A start before its end.
        if (name === "start" && parameters.some((other) => other.name === "end")) query.set("end", value);
        const url = `${path.replace("{id}", rule.json.id).replaceAll(/\{\w+\}/g, "x")}?${query.toString()}`;
        const { status, text } = await call("GET", place.apiUrl + url, { bearer });
        asked += 1;
        if (status >= 500) failed.push(`${status} ${url}: ${text.slice(0, 200)}`);
      }
    }
  }
  expect(failed).toEqual([]);
  expect(asked).toBeGreaterThan(500);
  expect(backend.log).not.toContain('"level":"error"');
});
