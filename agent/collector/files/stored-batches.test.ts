// The collector's store of offsets is a file that the test writes; its content does not matter. With the real one:
// test/faults/agent-killed.test.ts.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { BatchId } from "./file-batch.ts";
import { StoredBatches } from "./stored-batches.ts";

let folder: string;
let nowMs: number;
let stored: StoredBatches;
/** The number of the collector's last start. */
let start: number;

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
  return new StoredBatches({ folder, log: pino({ level: "silent" }), nowMs: () => nowMs, watchEveryMs: 100, maxLines: 1000 });
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
  start = stored.collectorStarts();
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

/** The running collector reads these lines. */
function read(...lines: number[]): BatchId {
  const [first = 1] = lines;
  return { id: `${start} ${nowMs} ${first}`, start, readAtMs: nowMs, lines: lines.length > 0 ? lines : [first] };
}

/** The lines that the backend has according to the account. */
function known(batch: BatchId): number[] {
  return [...stored.lines.repeated(batch, new Map())];
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
      expect(known(again)).toEqual([1]);
      stored.add([again]);
    }
  });

  test("are recognised if they are cut into other batches", () => {
    pass(10_000);
    stored.add([read(1, 2, 3)]);
    pass(10);
    stored.add([read(4, 5)]);
    starts();
    expect(known(read(2, 3, 4))).toEqual([2, 3, 4]);
    expect(known(read(5, 6))).toEqual([5]);
  });

  test("are recognised if the clock is set back between two collectors", () => {
    pass(10_000);
    stored.add([read()]);
    reopen();
    nowMs -= 3_600_000;
    starts();
    expect(known(read())).toEqual([1]);
  });

  test.each([
    ["set back", [-3_600_000, 0]],
    ["set forward and back again", [3_600_000, -61_000]],
  ])("are recognised if their collector outlived the agent, and the clock was %s before it read them", (_, [beforeMs = 0, afterMs = 0]) => {
    pass(10_000);
    remembers();
    pass(200);
    stored[Symbol.dispose]();
    nowMs += beforeMs;
    const byOrphan = read();
    nowMs += afterMs;
    pass(1000);
    stored = open();
    starts();
    stored.add([byOrphan]);
    expect(known(read())).toEqual([1]);
  });

  test("are recognised if the clock is set back before a collector is killed that cannot save offsets", () => {
    pass(10_000);
    nowMs -= 3_600_000;
    pass(1000);
    stored.add([read()]);
    starts();
    expect(known(read())).toEqual([1]);
  });

  test("are recognised if they were read between a save of offsets and a step of the clock right after it, or after both", () => {
    pass(10_000);
    remembers();
    nowMs += 50;
    const before = read(1);
    nowMs -= 61_000;
    const after = read(2);
    pass(200);
    stored.add([before, after]);
    starts();
    expect(known(read(1, 2))).toEqual([1, 2]);
  });

  test("are recognised if the clock is set back while the next collector reads them", () => {
    pass(10_000);
    stored.add([read()]);
    starts();
    const again = read();
    nowMs -= 3_600_000;
    pass(500);
    remembers();
    pass(200);
    expect(known(again)).toEqual([1]);
    stored.add([again]);
    expect(known(read())).toEqual([]);
  });

  test("are recognised if they are read again right after the clock was set back", () => {
    pass(10_000);
    stored.add([read()]);
    starts();
    nowMs -= 3_600_000;
    const again = read();
    pass(500);
    remembers();
    pass(200);
    expect(known(again)).toEqual([1]);
  });

  test("are recognised if they leave the queue only after the collector was killed", () => {
    pass(10_000);
    const [first, sameAgain] = [read(), read()];
    pass(10_000);
    starts();
    const again = read();
    pass(60_000);
    expect(known(first)).toEqual([]);
    stored.add([first]);
    expect(known(again)).not.toEqual([]);
    expect(known(sameAgain)).not.toEqual([]);
  });

  test("are recognised if the lines that are read again overtake them", () => {
    pass(10_000);
    const first = read();
    starts();
    stored.add([read()]);
    expect(known(first)).not.toEqual([]);
  });

  test("are new if the same collector reads them at the same offset, because the file was rewritten", () => {
    pass(10_000);
    stored.add([read()]);
    pass(500);
    expect(known(read())).toEqual([]);
    starts();
    const again = read();
    expect(known(again)).not.toEqual([]);
    stored.add([again]);
    pass(20);
    expect(known(read())).toEqual([]);
  });

  test("are new if their offset was stored before the kill", () => {
    pass(10_000);
    stored.add([read()]);
    pass(5000);
    remembers();
    stored.add([read(2)]);
    starts();
    expect(known(read())).toEqual([]);
    expect(known(read(2))).not.toEqual([]);
  });

  test("are new once the next collector has looked at all files", () => {
    pass(10_000);
    stored.add([read()]);
    runs();
    pass(10);
    expect(known(read())).toEqual([]);
  });

  test("are new after a later kill, if their offset was stored since an earlier one", () => {
    starts();
    stored.add([read()]);
    pass(200);
    remembers();
    pass(60_000);
    remembers();
    starts();
    expect(known(read())).toEqual([]);
  });

  test("are new if the clock is set back after their collector had ended", () => {
    const rewritten = read();
    pass(10_000);
    remembers();
    pass(200);
    stored.collectorEnded();
    nowMs -= 3_600_000;
    pass(200);
    starts();
    stored.add([rewritten]);
    expect(known(read())).toEqual([]);
  });

  test("are new if their offset was stored, and the clock then gave later lines of that collector the same time", () => {
    starts();
    stored.add([read()]);
    for (const stepMs of [0, 0, 0, -10_000, 0]) {
      pass(1000);
      nowMs += stepMs;
      pass(200);
      remembers();
      pass(200);
    }
    reopen();
    nowMs += 3_600_000;
    starts();
    expect(known(read())).toEqual([]);
  });

  test.each([
    ["before it looked at any file", 0],
    ["after it had looked at files once", 200],
  ])("are new if the next collector stored offsets after the clock was set back %s", (_, afterMs) => {
    pass(10_000);
    stored.add([read()]);
    starts();
    pass(afterMs);
    nowMs -= 61_000;
    pass(500);
    remembers();
    pass(200);
    expect(known(read())).toEqual([]);
    pass(55_000);
    expect(known(read())).toEqual([]);
  });

  test("are recognised if an earlier line at their offset was accepted after its offset was stored, and the clock was set back", () => {
    starts();
    const rewritten = read();
    for (let save = 0; save < 3; save += 1) {
      pass(1000);
      remembers();
    }
    nowMs -= 61_000;
    pass(1000);
    remembers();
    pass(200);
    stored.add([rewritten]);
    pass(1000);
    stored.add([read()]);
    starts();
    expect(known(read())).toEqual([1]);
  });

  test("are recognised if the clock was set back since an earlier line at their offset was stored", () => {
    starts();
    const rewritten = read();
    pass(200);
    stored.add([rewritten]);
    for (let save = 0; save < 3; save += 1) {
      remembers();
      pass(1000);
    }
    stored[Symbol.dispose]();
    nowMs -= 3_600_000;
    pass(1000);
    remembers();
    pass(1000);
    const byOrphan = read();
    pass(1000);
    stored = open();
    starts();
    stored.add([byOrphan]);
    expect(known(read())).toEqual([1]);
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
    expect(known(read())).not.toEqual([]);
    remembers("audit");
    pass(1000);
    expect(known(read())).toEqual([]);
  });

  test("are recognised if the collector sends them again long after it read them, in any batch", () => {
    const old = read();
    pass(60_000);
    remembers();
    stored.add([old]);
    stored.add([read(2)]);
    pass(60_000);
    remembers();
    stored.add([read(3)]);
    starts();
    reopen();
    expect(known(old)).not.toEqual([]);
    expect(known({ ...old, id: "another", readAtMs: old.readAtMs + 1 })).toEqual([]);
  });
});

test("lines in the queue of an earlier agent, which numbered no starts, are recognised when they are read again", () => {
  stored[Symbol.dispose]();
  writeFileSync(join(folder, "stored-batches"), "token of-the-earlier-agent\nbatch 1 key\n");
  remembers();
  pass(5000);
  start = 0;
  const queued = read();
  pass(1000);
  stored = open();
  starts();
  stored.add([queued]);
  expect(known(read())).toEqual([1]);
  pass(200);
  remembers();
  pass(200);
  expect(known(read())).toEqual([]);
});

describe("the record of stored lines", () => {
  test("is deleted when no collector can read them again, in memory and on disk", () => {
    runs();
    for (let i = 0; i < 24_000; i++) {
      stored.add([read(i)]);
      pass(10);
      if (i % 100 === 0) remembers();
    }
    const lines = readFileSync(join(folder, "stored-batches"), "utf8").split("\n").length;
    expect(lines).toBeLessThan(14_000);
  });

  test("is limited, even if the collector stores no offsets for hours", () => {
    runs();
    for (let i = 0; i < 2000; i++) stored.add([read(i)]);
    pass(10_000);
    stored.add([read(5000)]);
    const lines = readFileSync(join(folder, "stored-batches"), "utf8").split("\n").length;
    expect(lines).toBeLessThan(4000);
    starts();
    expect(known(read(1500))).not.toEqual([]);
    expect(known(read(999))).toEqual([]);
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
    stored.add([read(2)]);
    expect(known(again)).not.toEqual([]);
    pass(601_000);
    remembers();
    stored.add([read(3)]);
    expect(known(again)).toEqual([]);
    reopen();
    expect(known(again)).toEqual([]);
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
    writeFileSync(join(folder, "stored-batches"), `{"token":"${stored.token}"}\n\0\0[]\n{"lines":[1]}\n{"id`);
    stored = open();
    starts();
    expect(known(read())).toEqual([]);
    rmSync(folder, { recursive: true });
    reopen();
    start = stored.collectorStarts();
    stored.add([read()]);
    expect(existsSync(folder)).toBe(false);
    mkdirSync(join(folder, "checkpoints"), { recursive: true });
    pass(10_000);
    stored.add([read()]);
    reopen();
    starts();
    expect(known(read())).not.toEqual([]);
  });
});
