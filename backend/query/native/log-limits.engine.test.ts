// Log routes for a reader with limits to values of labels, with the real engine: a page, counts, and a tail whose reader's limits change.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type LogsApp, openLogsApp } from "../../../test/fixtures/logs-app.ts";
import { eventually } from "../../../test/fixtures/processes.ts";
import type { LabelLimits } from "../../admission/limited-labels.ts";
import { stringAttribute } from "../../ingest/otlp/otlp-body.fixture.ts";

const KEY = "k8s.namespace.name";
let limits: LabelLimits | undefined;
let app: LogsApp;

beforeAll(async () => {
  const reader = () => async (request: { readToken?: object }) => {
    request.readToken = { tokenId: "t", orgId: "o", labelLimits: limits };
  };
  app = await openLogsApp({ guards: { reader }, tails: { checkMs: 100, pollMs: 50 } });
});
afterAll(() => app?.[Symbol.asyncDispose]());

async function send(namespace: string, message: string): Promise<void> {
  const record = { timeUnixNano: `${Date.now()}000000`, body: { stringValue: message } };
  await app.send("o", [record], [stringAttribute(KEY, namespace)]);
}

test("a page, a filter and counts contain only visible records", async () => {
  await send("shop", "from shop");
  await send("web", "from web");
  const read = async (path: string) => (await app.get("o", path)).body;
  limits = undefined;
  expect(await read("/query/logs")).toContain("from web");
  limits = { [KEY]: ["shop"] };
  expect(await read("/query/logs")).toMatch(/from shop/);
  for (const path of [
    "/query/logs",
    `/query/logs?label.${KEY}=web`,
    "/query/logs/fields",
    "/query/logs/patterns",
    `/query/logs?query=${KEY}:web`,
  ])
    expect(await read(path), path).not.toContain("web");
  const buckets = JSON.parse(await read("/query/logs/histogram?buckets=1")) as { counts: Record<string, number> }[];
  expect(buckets.flatMap(({ counts }) => Object.values(counts)).reduce((sum, count) => sum + count, 0)).toBe(1);
});

test("a tail that is open follows a change of its reader's limits", async () => {
  limits = { [KEY]: ["shop"] };
  const response = await fetch(`${app.url}/query/logs/tail`);
  let text = "";
  const done = (async () => {
    const decoder = new TextDecoder();
    for await (const piece of response.body ?? []) text += decoder.decode(piece as Uint8Array, { stream: true });
  })().catch(() => undefined);
  await send("web", "web before");
  await send("shop", "shop before");
  await eventually("the visible record comes", () => text.includes("shop before"));
  expect(text).not.toContain("web before");
  limits = { [KEY]: ["web"] };
  await eventually("a record of the new limits comes", async () => {
    await send("shop", "shop after");
    await send("web", "web after");
    return text.includes("web after");
  });
  const since = text.length;
  await send("shop", "shop at the end");
  await send("web", "web at the end");
  await eventually("the last record comes", () => text.includes("web at the end"));
  expect(text.slice(since)).not.toContain("shop");
  await response.body?.cancel().catch(() => undefined);
  await app[Symbol.asyncDispose]();
  await done;
});
