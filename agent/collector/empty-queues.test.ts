import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { store } from "./bbolt-file.fixture.ts";
import { removeEmptyQueues } from "./empty-queues.ts";

let folder: string;
let said: string[];
const log = pino({}, { write: (line: string) => void said.push((JSON.parse(line) as { msg: string }).msg) });
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "atherops-queues-"));
  mkdirSync(join(folder, "queue"));
  said = [];
});
afterEach(() => rmSync(folder, { recursive: true }));

const file = (name: string): string => join(folder, "queue", name);

async function remove(): Promise<void> {
  await removeEmptyQueues(JSON.stringify({ extensions: { "file_storage/queue": { directory: join(folder, "queue") } } }), log);
}

test("the large file of an empty queue is removed", async () => {
  writeFileSync(file("exporter_otlp_http_files_logs"), store("ri"));
  await remove();
  expect(existsSync(file("exporter_otlp_http_files_logs"))).toBe(false);
  expect(said).toEqual(["removed the file of an empty disk queue"]);
});

test.each([
  ["holds an entry", "exporter_a", store("7")],
  ["may hold one, because it is damaged", "exporter_a", Buffer.alloc(3_000_000, 1)],
  ["is small", "exporter_a", Buffer.alloc(32_768)],
  ["was quarantined", "exporter_a.damaged", store("ri")],
  ["is no queue", "receiver_filelog_files", store("ri")],
])("a file that %s stays", async (_, name, content) => {
  writeFileSync(file(name), content);
  await remove();
  expect(existsSync(file(name))).toBe(true);
});

test("a configuration that is none removes nothing and throws nothing", async () => {
  writeFileSync(file("exporter_a"), store("ri"));
  await removeEmptyQueues("{{", log);
  await removeEmptyQueues("extensions: {}", log);
  expect(existsSync(file("exporter_a"))).toBe(true);
});
