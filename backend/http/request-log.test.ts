import { expect, test } from "vitest";
import { createLog } from "../log.ts";
import { closeRoutes, createApp } from "./app.ts";

async function linesOf(level: string): Promise<Record<string, unknown>[]> {
  const lines: Record<string, unknown>[] = [];
  const log = createLog(level, "test", { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) });
  const app = await createApp({ log });
  app.get("/quiet", async () => ({}));
  app.get("/loud", async (request) => {
    request.log.info({ password: "hunter2" }, "first");
    request.log.child({ part: "inner" }).warn("second");
    return {};
  });
  await closeRoutes(app);
  for (const url of ["/quiet", "/loud"]) await app.inject({ url, headers: { "x-request-id": `id-of${url.slice(1)}` } });
  await app.close();
  return lines;
}

test("each line contains the id of its request, and secrets are masked", async () => {
  expect(await linesOf("info")).toMatchObject([
    { level: "info", reqId: "id-ofloud", password: "[redacted]", msg: "first" },
    { level: "warn", reqId: "id-ofloud", part: "inner", msg: "second" },
  ]);
});

test("completed requests are logged at level debug only", async () => {
  const completed = (await linesOf("debug")).filter(({ event }) => event === "http.request_completed");
  expect(completed).toMatchObject([
    { level: "debug", reqId: "id-ofquiet", method: "GET", route: "/quiet", status: 200 },
    { level: "debug", reqId: "id-ofloud", method: "GET", route: "/loud", status: 200 },
  ]);
});
