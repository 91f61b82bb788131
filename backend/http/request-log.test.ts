import { expect, test } from "vitest";
import { createLog } from "../observability/log.ts";
import { closeRoutes, createApp } from "./app.ts";

async function linesOf(level: string): Promise<Record<string, unknown>[]> {
  const lines: Record<string, unknown>[] = [];
  const log = createLog(level, "test", { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) });
  const app = await createApp({ log });
  app.get("/quiet", async () => ({}));
  app.get("/told", async (request) => {
    request.log.info({ password: "hunter2" }, "first");
    request.log.child({ part: "inner" }).warn("second");
    return {};
  });
  await closeRoutes(app);
  for (const url of ["/quiet", "/told"]) await app.inject({ url, headers: { "x-request-id": `id-of${url.slice(1)}` } });
  await app.close();
  return lines;
}

test("each line of a request says which one it was, and masks what has to be", async () => {
  expect(await linesOf("info")).toMatchObject([
    { level: "info", reqId: "id-oftold", password: "[redacted]", msg: "first" },
    { level: "warn", reqId: "id-oftold", part: "inner", msg: "second" },
  ]);
});

test("answers are told at the level debug, and only there", async () => {
  const answered = (await linesOf("debug")).filter(({ msg }) => msg === "answered");
  expect(answered).toMatchObject([
    { level: "debug", reqId: "id-ofquiet", method: "GET", route: "/quiet", status: 200 },
    { level: "debug", reqId: "id-oftold", method: "GET", route: "/told", status: 200 },
  ]);
});
