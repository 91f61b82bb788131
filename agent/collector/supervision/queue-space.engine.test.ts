import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readSettings } from "../../settings.ts";
import { configFromSettings } from "../config/config-from-settings.ts";
import { PAGE, queueStore, store } from "./bbolt-file.fixture.ts";
import { readQueueFile } from "./queue-file.ts";
import { QueueSpace } from "./queue-space.ts";
import { canMount, SmallDisk } from "./small-disk.fixture.ts";

const MIB = 1024 * 1024;
let folder: string;
let messages: string[];
const log = pino({}, { write: (line: string) => void messages.push((JSON.parse(line) as { msg: string }).msg) });
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "atherops-queues-"));
  messages = [];
});
afterEach(() => rmSync(folder, { recursive: true }));

const file = (name = "exporter_otlp_http_files_logs"): string => join(folder, "queue", name);

function space(env: NodeJS.ProcessEnv = {}): QueueSpace {
  const given = { BACKEND_URL: "http://127.0.0.1:1", STATE_DIR: folder, SIGNALS: "logs", LOG_PATHS: "/var/log/*.log", ...env };
  return new QueueSpace(configFromSettings(readSettings("host", given).settings));
}

/** Encodes `qmv0` like the collector; zeros are left out. */
function metadata(readIndex: number, writeIndex: number, dispatched: readonly number[], bytes = 1000): Buffer {
  const fixed = [[1, bytes], [2, bytes], [3, readIndex], [4, writeIndex]] as const; // prettier-ignore
  const list = dispatched.map((index) => fixed64(index));
  return Buffer.concat([
    ...fixed.filter(([, value]) => value > 0).map(([field, value]) => Buffer.concat([Buffer.from([(field << 3) | 1]), fixed64(value)])),
    ...(list.length === 0 ? [] : [Buffer.from([(5 << 3) | 2, ...varint(list.length * 8)]), ...list]),
  ]);
}

function fixed64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, value >> 7];
}

function queue(indexes: readonly number[], qmv0: Buffer, freePages = 0): Buffer {
  const entries = indexes.map((index) => [String(index), Buffer.alloc(10_000, index)] as const);
  return queueStore([...entries.toSorted(([a], [b]) => (a < b ? -1 : 1)), ["qmv0", qmv0]], freePages);
}

describe("before the collector starts", () => {
  beforeEach(() => mkdirSync(join(folder, "queue")));

  test("removes the large file of an empty queue", async () => {
    writeFileSync(file(), store("ri"));
    expect(await space().prepare(log)).toBeUndefined();
    expect(existsSync(file())).toBe(false);
    expect(messages).toEqual(["removed the file of an empty disk queue"]);
  });

  test.each([
    ["may hold an entry, because it is damaged", "exporter_a", Buffer.alloc(3_000_000, 1)],
    ["is small", "exporter_a", Buffer.alloc(32_768)],
    ["was quarantined", "exporter_a.damaged", store("ri")],
    ["is no queue", "receiver_filelog_files", store("ri")],
  ])("does not change a file that %s", async (_, name, content) => {
    writeFileSync(file(name), content);
    expect(await space().prepare(log)).toBeUndefined();
    expect(readFileSync(file(name))).toEqual(content);
  });

  test.each(["{{", "extensions: {}", "1"])("changes nothing for an invalid configuration (%s)", async (none) => {
    writeFileSync(file(), store("ri"));
    expect(await new QueueSpace(none).prepare(log)).toBeUndefined();
    expect(new QueueSpace(none).updateLimitBytes()).toBeUndefined();
    expect(existsSync(file())).toBe(true);
  });

  test.each([
    ["none is being sent", [7, 9, 10, 12], metadata(12, 13, []), 3],
    ["some are being sent", [7, 9, 10, 12], metadata(12, 13, [10, 9]), 1],
    [
      "many are being sent",
      [1, 7, ...Array.from({ length: 20 }, (_, i) => 20 + i)],
      metadata(
        40,
        40,
        Array.from({ length: 20 }, (_, i) => 20 + i),
      ),
      2,
    ],
  ])("adds entries that the collector skipped to the queue again: %s", async (_, indexes, qmv0, skipped) => {
    writeFileSync(file(), queue(indexes, qmv0));
    expect(await readQueueFile(file())).toMatchObject({ entries: indexes.length, skipped });
    expect(await space().prepare(log)).toBeUndefined();
    expect(await readQueueFile(file())).toMatchObject({
      entries: indexes.length,
      skipped: 0,
      metadata: { readIndex: Math.min(...indexes), dispatched: [] },
    });
    expect(messages).toEqual(["the collector skipped entries of its disk queue on a full disk; they are queued again"]);
  });

  test.each([
    ["no entry is below the read index", queue([12, 13], metadata(12, 14, []))],
    ["entries below it are being sent", queue([10, 11, 12], metadata(12, 13, [11, 10]))],
    ["the metadata is of another format", queue([3, 12], Buffer.from([0x32, 1, 1, ...metadata(12, 13, [])]))],
  ])("does not change a queue: %s", async (_, content) => {
    writeFileSync(file(), content);
    expect(await space().prepare(log)).toBeUndefined();
    expect(readFileSync(file()).subarray(0, content.length)).toEqual(content);
    expect(messages).toEqual([]);
  });
});

describe.skipIf(!canMount)("on a small disk (needs root)", () => {
  test("limits the queues to half of the space, and at least 1 MiB each", () => {
    using disk = new SmallDisk(join(folder, "queue"), "24m");
    const queues = space();
    expect(queues.updateLimitBytes()).toBeGreaterThan(5.9 * MIB);
    expect(space().updateLimitBytes()).toBeLessThanOrEqual(6 * MIB);
    expect(queues.growth()).toBe(1);
    writeFileSync(file("exporter_a"), Buffer.alloc(8 * MIB));
    disk.fill();
    expect(queues.growth()).toBeCloseTo(1 / 3, 1);
    rmSync(file("exporter_a"));
    disk.fill();
    expect(space().updateLimitBytes()).toBe(MIB);
  });

  test("allocates space for the collector's next transactions, even while entries are sent", async () => {
    using _disk = new SmallDisk(join(folder, "queue"), "1m");
    const content = queue([10, 11, 12], metadata(12, 13, [11, 10]));
    writeFileSync(file(), content);
    expect(await space().prepare(log)).toBeUndefined();
    expect(statSync(file()).size).toBeGreaterThan(content.length + 4 * 30_000);
    expect(await readQueueFile(file())).toMatchObject({ entries: 3, skipped: 0 });
  });

  test("does not start the collector on a full disk while a queue has entries, unless its file has free pages", async () => {
    using disk = new SmallDisk(join(folder, "queue"), "2m");
    writeFileSync(file("exporter_b"), queue([10, 11, 12], metadata(12, 13, [11, 10]), 100));
    disk.fill();
    expect(await space().prepare(log)).toBeUndefined();
    disk.free();
    const content = queue([10, 11, 12], metadata(12, 13, [11, 10]));
    writeFileSync(file(), content);
    disk.fill();
    expect(await space().prepare(log)).toBe(`no space left on device: sending the entries of ${file()} needs disk space`);
    disk.free();
    expect(await space().prepare(log)).toBeUndefined();
    expect(statSync(file()).size % PAGE).toBe(0);
  });
});

test("without disk limits, keeps the configured queue sizes and the operator's own", () => {
  expect(space({ QUEUE_MIB: "16" }).updateLimitBytes()).toBe(16 * MIB);
  const overlay = join(folder, "overlay.yaml");
  writeFileSync(
    overlay,
    `exporters: ${JSON.stringify(Object.fromEntries(["otlp_http/files", "otlp_http/atherops"].map((id) => [id, { sending_queue: { queue_size: 99 } }])))}`,
  );
  expect(space({ COLLECTOR_CONFIG_FILE: overlay }).updateLimitBytes()).toBeUndefined();
});
