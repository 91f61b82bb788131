// A file in the collector's form replaces its store of offsets; the real one: test/faults/log-files.test.ts.
import { closeSync, mkdtempSync, openSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { bytesField, varint } from "../../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { fileId } from "../files/link-name.ts";
import type { WatchedFile } from "../files/log-files-status.ts";
import { queueStore } from "./bbolt-file.fixture.ts";
import { readOffsets } from "./stored-offsets.ts";
import { UnreadFiles } from "./unread-files.ts";

const DAY_MS = 86_400_000;
let folder: string;
let store: string;
let nowMs: number;
let files: Map<string, WatchedFile>;
let collectorPid: number | null;
let said: { event: string; files: string[]; count: number }[];
let unread: UnreadFiles;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "atherops-unread-"));
  store = join(folder, "receiver_filelog_files");
  nowMs = 1_763_714_400_000;
  files = new Map();
  said = [];
  collectorPid = null;
  unread = new UnreadFiles({
    files: async function* () {
      yield* files.values();
    },
    offsetsFile: store,
    maxAgeMs: DAY_MS,
    collectorPid: () => collectorPid,
    log: pino({}, { write: (line: string) => void said.push(JSON.parse(line) as (typeof said)[number]) }),
    nowMs: () => nowMs,
    // Checks are made by the tests.
    everyMs: 3_600_000,
  });
});
afterEach(async () => {
  await unread[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

type Stored = readonly (readonly [path: string, offset: number])[];

/** As the collector encodes them. */
function offsetsOf(stored: Stored, fingerprintBytes = 4096): Buffer {
  return Buffer.concat(
    stored.map(([path, offset]) =>
      bytesField(
        1,
        Buffer.concat([
          bytesField(1, bytesField(1, Buffer.alloc(fingerprintBytes, path))),
          ...(offset === 0 ? [] : [Buffer.from([0x10]), varint(BigInt(offset)), Buffer.from([0x18, 7])]),
          bytesField(4, Buffer.from(JSON.stringify({ "log.file.path": path, "log.file.name": "x" }))),
          bytesField(6, Buffer.from([0x08, 1])),
        ]),
      ),
    ),
  );
}

/** The collector finishes a pass. */
function pass(stored: Stored): void {
  writeFileSync(store, queueStore([["file_input.knownFiles", offsetsOf(stored)]]));
  utimesSync(store, nowMs / 1000, nowMs / 1000);
}

function grow(path: string, size: number, changedMs = nowMs): void {
  files.set(path, { id: path, path: `/var/log/${path}`, storedPath: `/links/${path}`, size, changedMs });
}

/** Every five seconds, for so long: the file grows, the collector finishes a pass, and a check is made. */
async function run(seconds: number, each: (second: number) => void): Promise<string[]> {
  for (let second = 5; second <= seconds; second += 5) {
    nowMs += 5000;
    each(second);
    await unread.check();
  }
  return unread.paths();
}

describe("reports within 30 s a file that grows and", () => {
  test.each<[string, (second: number) => Stored]>([
    ["is unknown to the collector", () => []],
    ["whose offset stays where it was", () => [["/links/a.log", 100]]],
    ["whose offset is 0", () => [["/links/a.log", 0]]],
    ["was truncated below its offset", () => [["/links/a.log", 1_000_000]]],
    [
      "has several offsets, of which none moves",
      () => [
        ["/links/a.log", 100],
        ["/links/a.log", 70],
      ],
    ],
    ["while other files are read", (second) => [["/links/b.log", second * 1000]]],
  ])("%s", async (_, stored) => {
    const paths = await run(30, (second) => {
      grow("a.log", second * 1000);
      grow("b.log", second * 1000);
      pass([["/links/b.log", second * 1000], ...stored(second)]);
    });
    expect(paths).toEqual(["/var/log/a.log"]);
    expect(unread.failing()).toEqual([
      { signal: "logs", sinceMs: nowMs - 25_000, error: "log files grow, but the collector does not read them: 1, such as /var/log/a.log" },
    ]);
    expect(said).toMatchObject([{ event: "log_files.unread", files: ["/var/log/a.log"], count: 1 }]);
  });

  test("grew once, and is not read since", async () => {
    grow("a.log", 500);
    expect(await run(30, () => pass([]))).toEqual(["/var/log/a.log"]);
  });
});

test("reports a file within 30 s after the clock was set back", async () => {
  const behind = (): void => (grow("a.log", 500), pass([]));
  await run(5, behind);
  nowMs -= DAY_MS / 2;
  expect(await run(30, behind)).toEqual(["/var/log/a.log"]);
});

describe("does not report a file that", () => {
  test.each<[string, (second: number) => void]>([
    ["is read with a delay", (second) => (grow("a.log", second * 1000), pass([["/links/a.log", second * 1000 - 900]]))],
    ["is read to its end", () => (grow("a.log", 500), pass([["/links/a.log", 500]]))],
    ["is empty", () => (grow("a.log", 0), pass([]))],
    [
      "has an older offset besides",
      () => (
        grow("a.log", 500),
        pass([
          ["/links/a.log", 100],
          ["/links/a.log", 500],
        ])
      ),
    ],
    ["has not changed for longer than the collector reads files", () => (grow("a.log", 500, nowMs - DAY_MS - 1), pass([]))],
    [
      "is read with a delay and disappears",
      (second) => (second < 20 ? grow("a.log", second * 100) : files.clear(), pass([["/links/a.log", second * 100 - 9]])),
    ],
  ])("%s", async (_, each) => {
    expect(await run(60, each)).toEqual([]);
    expect(said).toEqual([]);
  });

  test("waits for a collector that has not finished its pass", async () => {
    pass([]);
    expect(await run(60, () => grow("a.log", 500))).toEqual([]);
    expect(await run(15, () => pass([]))).toEqual(["/var/log/a.log"]);
  });

  test("is read again after it was reported", async () => {
    grow("a.log", 500);
    await run(30, () => pass([]));
    expect(await run(5, () => pass([["/links/a.log", 500]]))).toEqual([]);
    expect(unread.failing()).toEqual([]);
  });
});

describe("a file that disappears with unread bytes", () => {
  const appear = (path: string, size: number, id = path): void =>
    void files.set(id, { id, path: `/var/log/${path}`, storedPath: `/links/${path}`, size, changedMs: nowMs });

  test.each<[string, Stored, number]>([
    ["was never opened", [], 500],
    ["has an offset", [["/links/a.log", 200]], 300],
    ["was truncated", [["/links/a.log", 900]], 500],
  ])("is lost if it %s and no pass has finished since", async (_, stored, bytes) => {
    pass(stored);
    await run(5, () => appear("a.log", 500));
    files.clear();
    await run(10, () => {});
    expect(unread.lost()).toEqual({ files: 1, bytes });
    const error = `log files were removed, or too old, before the collector had read them: 1, with ${bytes} unread bytes, such as /var/log/a.log`;
    expect(unread.failing()).toEqual([{ signal: "logs", sinceMs: nowMs - 5000, error }]);
    expect(said).toMatchObject([{ event: "log_files.lost", file: "/var/log/a.log", bytes }]);
    nowMs += 600_000;
    expect(unread.failing()).toEqual([]);
  });

  test("is lost if it was not read for several checks, whatever the passes", async () => {
    await run(15, () => (appear("a.log", 500), pass([])));
    files.clear();
    await run(5, () => pass([]));
    expect(unread.lost()).toEqual({ files: 1, bytes: 500 });
  });

  test("is lost if the collector does not read it any more, because it is older than LOG_MAX_AGE", async () => {
    grow("a.log", 500);
    grow("read.log", 500);
    await run(10, () =>
      pass([
        ["/links/a.log", 100],
        ["/links/read.log", 500],
      ]),
    );
    nowMs += DAY_MS;
    await run(10, () =>
      pass([
        ["/links/a.log", 100],
        ["/links/read.log", 500],
      ]),
    );
    expect(unread.lost()).toEqual({ files: 1, bytes: 400 });
    expect(said).toMatchObject([{ event: "log_files.lost", file: "/var/log/a.log", bytes: 400 }]);
  });

  test("is not lost if it was read meanwhile, or was behind for a moment", async () => {
    pass([]);
    await run(5, () => (appear("a.log", 500), appear("b.log", 500)));
    files.clear();
    await run(5, () => pass([["/links/a.log", 500]]));
    expect(unread.lost()).toEqual({ files: 0, bytes: 0 });
  });

  test("is not lost if it is only not listed any more, because no logs are collected", async () => {
    const path = join(folder, "listed.log");
    writeFileSync(path, "");
    const id = fileId(statSync(path, { bigint: true }));
    await run(15, () => (files.set(id, { id, path, storedPath: path, size: 500, changedMs: nowMs }), pass([])));
    files.clear();
    await run(5, () => {});
    rmSync(path);
    await run(5, () => {});
    expect(unread.lost()).toEqual({ files: 0, bytes: 0 });
  });

  test.each([true, false])("is not lost while a collector has it open, but if that collector is killed (%s)", async (isKilled) => {
    const path = join(folder, "open.log");
    const file = openSync(path, "w+");
    collectorPid = process.pid;
    await run(5, () => (pass([]), appear("open.log", 500, fileId(statSync(path, { bigint: true })))));
    files.clear();
    await run(60, () => {});
    expect(unread.lost()).toEqual({ files: 0, bytes: 0 });
    closeSync(file);
    if (isKilled) collectorPid = null;
    await run(5, () => {});
    expect(unread.lost()).toEqual(isKilled ? { files: 1, bytes: 500 } : { files: 0, bytes: 0 });
  });
});

describe("a store", () => {
  test("of many files is read in parts", async () => {
    const stored = Array.from({ length: 1000 }, (_, index): [string, number] => [`/var/log/ä${index}\n".log`, index]);
    writeFileSync(store, queueStore([["file_input.knownFiles", offsetsOf(stored)]]));
    expect(await readOffsets(store)).toEqual(new Map(stored.map(([path, offset]) => [path, [offset]])));
    writeFileSync(store, queueStore([["knownFiles", Buffer.alloc(0)]]));
    expect(await readOffsets(store)).toEqual(new Map());
  });

  test.each<[string, Buffer]>([
    ["is missing", Buffer.alloc(0)],
    ["is overwritten", Buffer.alloc(16_384, "x")],
    ["has no offsets", queueStore([["other", Buffer.from("0\n")]])],
    ["has offsets in JSON", queueStore([["knownFiles", Buffer.from('1\n{"Offset":1}\n')]])],
    ["has an incomplete file", queueStore([["knownFiles", offsetsOf([["/a", 1]]).subarray(0, -1)]])],
    ["has something after its files", queueStore([["knownFiles", Buffer.concat([offsetsOf([["/a", 1]]), Buffer.from([0x12, 0])])]])],
    ["has malformed attributes", queueStore([["knownFiles", bytesField(1, bytesField(4, Buffer.from("{")))]])],
    [
      "has a file without an end",
      queueStore([["knownFiles", Buffer.concat([Buffer.from([0x0a, 0xff, 0xff, 0xff, 0x7f]), Buffer.alloc(3 << 20)])]]),
    ],
    ["has a length without an end", queueStore([["knownFiles", Buffer.alloc(3 << 20, 0xff).fill(0x0a, 0, 1)]])],
  ])("that %s yields no offsets, and nothing is reported", async (_, bytes) => {
    grow("a.log", 500);
    const paths = await run(60, () => {
      writeFileSync(store, bytes);
      utimesSync(store, nowMs / 1000, nowMs / 1000);
    });
    expect(await readOffsets(store)).toBeUndefined();
    expect(paths).toEqual([]);
  });
});
