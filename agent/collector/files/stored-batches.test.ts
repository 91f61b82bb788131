// The collector's store of offsets is a file that the test writes; its content does not matter. With the real one:
// test/faults/agent-killed.test.ts.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { FileBatch } from "./file-batch.ts";
import { StoredBatches } from "./stored-batches.ts";

let folder: string;
let nowMs: number;
let stored: StoredBatches;

beforeEach(() => {
  vi.useFakeTimers();
  folder = mkdtempSync(join(tmpdir(), "atherops-stored-"));
  mkdirSync(join(folder, "checkpoints"));
  nowMs = 1_763_714_400_000;
  stored = open();
});
afterEach(() => {
  stored[Symbol.dispose]();
  rmSync(folder, { recursive: true, force: true });
  vi.useRealTimers();
});

function open(): StoredBatches {
  return new StoredBatches({ folder, log: pino({ level: "silent" }), nowMs: () => nowMs, watchEveryMs: 100, maxBatches: 1000 });
}

/** The agent is killed, and starts again. */
function reopen(): void {
  stored[Symbol.dispose]();
  stored = open();
}

/** The collector writes its offsets. */
function remembers(receiver = "files"): void {
  const file = join(folder, "checkpoints", `receiver_filelog_${receiver}`);
  writeFileSync(file, "");
  utimesSync(file, nowMs / 1000, nowMs / 1000);
}

/** A collector starts, opens its store, and looks at no file yet. */
function starts(): void {
  stored.collectorStarts();
  pass(300);
  remembers();
  pass(100);
}

/** A collector starts, and has looked at all files once. */
function runs(): void {
  starts();
  pass(200);
  remembers();
  pass(200);
}

function pass(ms: number): void {
  nowMs += ms;
  vi.advanceTimersByTime(ms);
}

function read(key: string | null = "a"): FileBatch {
  return { key: key ?? undefined, readAtMs: nowMs, body: Buffer.alloc(0) };
}

describe("lines that the backend has stored", () => {
  beforeEach(() => {
    runs();
    pass(60_000);
    remembers();
  });

  test("are recognised when the next collector reads them again, even after the agent was killed too", () => {
    pass(10_000);
    stored.add([read()]);
    for (let kill = 0; kill < 3; kill++) {
      reopen();
      starts();
      const again = read();
      expect(stored.has(again)).toBe(true);
      stored.add([again]);
    }
  });

  test("are recognised if they leave the queue only after the collector was killed", () => {
    pass(10_000);
    const [first, sameAgain] = [read(), read()];
    pass(10_000);
    starts();
    const again = read();
    pass(60_000);
    expect(stored.has(first)).toBe(false);
    stored.add([first]);
    expect(stored.has(again)).toBe(true);
    expect(stored.has(sameAgain)).toBe(true);
  });

  test("are recognised if the lines that are read again overtake them", () => {
    pass(10_000);
    const first = read();
    starts();
    stored.add([read()]);
    expect(stored.has(first)).toBe(true);
  });

  test("are new if the same collector reads them at the same offset, because the file was rewritten", () => {
    pass(10_000);
    stored.add([read()]);
    pass(500);
    expect(stored.has(read())).toBe(false);
    starts();
    const again = read();
    expect(stored.has(again)).toBe(true);
    stored.add([again]);
    pass(20);
    expect(stored.has(read())).toBe(false);
  });

  test("are new if their offset was stored before the kill", () => {
    pass(10_000);
    stored.add([read()]);
    pass(5000);
    remembers();
    stored.add([read("b")]);
    starts();
    expect(stored.has(read())).toBe(false);
    expect(stored.has(read("b"))).toBe(true);
  });

  test("are new once the next collector has looked at all files", () => {
    pass(10_000);
    stored.add([read()]);
    runs();
    pass(10);
    expect(stored.has(read())).toBe(false);
  });

  test("are new after a later kill, if their offset was stored since an earlier one", () => {
    starts();
    stored.add([read()]);
    pass(200);
    remembers();
    pass(60_000);
    remembers();
    starts();
    expect(stored.has(read())).toBe(false);
  });

  test("stay uncertain while one of two receivers has not finished its first pass", () => {
    remembers("audit");
    pass(10_000);
    stored.add([read()]);
    starts();
    remembers("audit");
    pass(1000);
    remembers();
    pass(1000);
    expect(stored.has(read())).toBe(true);
    remembers("audit");
    pass(1000);
    expect(stored.has(read())).toBe(false);
  });

  test("are recognised if the collector sends them again long after it read them, in any batch", () => {
    const old = read();
    pass(60_000);
    remembers();
    stored.add([old]);
    stored.add([read("b")]);
    pass(60_000);
    remembers();
    stored.add([read("c")]);
    starts();
    reopen();
    expect(stored.has(old)).toBe(true);
    expect(stored.has({ ...old, readAtMs: old.readAtMs + 1 })).toBe(false);
  });

  test("are never recognised without a key", () => {
    pass(10_000);
    stored.add([read(null)]);
    starts();
    expect(stored.has(read(null))).toBe(false);
  });
});

describe("the record of stored lines", () => {
  test("is deleted when no collector can read them again, in memory and on disk", () => {
    runs();
    for (let i = 0; i < 12_000; i++) {
      stored.add([read(`k${i}`)]);
      nowMs += 10;
      if (i % 100 === 0) remembers();
    }
    const lines = readFileSync(join(folder, "stored-batches"), "utf8").split("\n").length;
    expect(lines).toBeLessThan(11_500);
  });

  test("is limited, even if the collector stores no offsets for hours", () => {
    runs();
    for (let i = 0; i < 2000; i++) stored.add([read(`k${i}`)]);
    pass(10_000);
    stored.add([read("last")]);
    const lines = readFileSync(join(folder, "stored-batches"), "utf8").split("\n").length;
    expect(lines).toBeLessThan(4000);
    starts();
    expect(stored.has(read("k1500"))).toBe(true);
    expect(stored.has(read("k999"))).toBe(false);
  });

  test("is deleted ten minutes after the queue has sent later lines", () => {
    runs();
    pass(10_000);
    stored.add([read()]);
    starts();
    const again = read();
    pass(500);
    remembers();
    pass(500);
    stored.add([read("later")]);
    expect(stored.has(again)).toBe(true);
    pass(601_000);
    remembers();
    stored.add([read("much later")]);
    expect(stored.has(again)).toBe(false);
    reopen();
    expect(stored.has(again)).toBe(false);
  });

  test("has one token for all runs of the agent, which only the agent can read", () => {
    const { token } = stored;
    reopen();
    expect(stored.token).toBe(token);
    expect(statSync(join(folder, "stored-batches")).mode & 0o777).toBe(0o600);
  });

  test("is empty if its file is damaged or read-only, without an error", () => {
    runs();
    stored[Symbol.dispose]();
    writeFileSync(join(folder, "stored-batches"), "batch x y\nstart\n\0\0\0doubt 1e999\nbatch 5");
    stored = open();
    starts();
    expect(stored.has(read())).toBe(false);
    rmSync(folder, { recursive: true });
    reopen();
    stored.collectorStarts();
    stored.add([read()]);
    expect(existsSync(folder)).toBe(false);
    mkdirSync(join(folder, "checkpoints"), { recursive: true });
    pass(10_000);
    stored.add([read()]);
    reopen();
    starts();
    expect(stored.has(read())).toBe(true);
  });
});
