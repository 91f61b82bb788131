// The agent's part of reading log files: which files it opens, and the links that it passes to the collector. Offsets of the test replace the
// collector; the real one: test/faults/log-files.test.ts.
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { fileId, linkName } from "./link-name.ts";
import { LogFiles } from "./log-files.ts";
import { LogTree } from "./log-tree.ts";
import { OpenFiles } from "./open-files.ts";

const isRoot = process.getuid?.() === 0;
let root: string;
let nowMs: number;
let files: LogFiles;
let offsets: Map<string, number[]> | undefined;
let said: string[];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "atherops-log-files-"));
  for (const folder of ["log/a", "log/b", "state"]) mkdirSync(join(root, folder), { recursive: true });
  nowMs = Date.now();
  offsets = new Map();
  said = [];
});
afterEach(async () => {
  vi.restoreAllMocks();
  await files[Symbol.asyncDispose]();
  rmSync(root, { recursive: true });
});

const log = (path: string): string => join(root, "log", path);
const write = (path: string, text: string): void => writeFileSync(log(path), text);

/** Unless `passEveryMs` is given, only `pass` makes passes. */
async function start({ maxOpen = 100, passEveryMs = 3_600_000 } = {}): Promise<void> {
  files = new LogFiles({
    folder: join(root, "state/links"),
    offsetsFile: join(root, "state/offsets"),
    readOffsets: () => Promise.resolve(offsets),
    rules: () => ({ mayRead: (path) => path.startsWith(`${root}/log/`), mayEnter: (path) => path.startsWith(`${root}/log`) }),
    maxAgeMs: 3_600_000,
    log: pino({}, { write: (line: string) => void said.push((JSON.parse(line) as { msg: string }).msg) }),
    passEveryMs,
    maxOpen,
    nowMs: () => nowMs,
  });
  await files.start([`${root}/log/**/*.log`]);
}

/** The patterns change with it, which makes a pass. */
let passes = 0;
async function pass(afterMs = 1000): Promise<void> {
  nowMs += afterMs;
  await files.follow([`${root}/log/**/*.log`, `${root}/none/${passes++}.log`]);
}

/** Folders that have changed within two seconds are listed again in any case. */
function changedLongAgo(...folders: string[]): void {
  for (const folder of folders) utimesSync(log(folder), 1000, 1000);
}

/** The collector has read so many bytes of each file. */
function collectorReads(bytes: number): void {
  const folder = join(root, "state/links");
  offsets = new Map(readdirSync(folder).map((link) => [join(folder, link), [bytes]]));
  // Opening and closing the store also changes it.
  writeFileSync(join(root, "state/offsets"), "");
  utimesSync(join(root, "state/offsets"), nowMs / 1000, nowMs / 1000);
}

/** Files that the collector would read: path → text. */
function readable(): Record<string, string> {
  const links = readdirSync(join(root, "state/links"));
  const pathOf = (link: string): string => link.slice(21).replaceAll("%2F", "/").slice(`${root}/log/`.length);
  return Object.fromEntries(links.map((link) => [pathOf(link), readFileSync(join(root, "state/links", link), "utf8")]));
}

function descriptors(): number {
  return readdirSync("/proc/self/fd").length;
}

describe("the collector's folder contains", () => {
  test("matching files once each, and new ones after the next pass", async () => {
    write("a/x.log", "x");
    symlinkSync("x.log", log("a/link.log"));
    symlinkSync("a", log("linked"));
    await start();
    write("b/y.log", "y");
    write("b/y.txt", "not matching");
    await pass();
    expect(readable()).toEqual({ "a/x.log": "x", "b/y.log": "y" });
    expect(files.status()).toMatchObject({ open: 2, notRead: {} });
  });

  test("the file that was validated, even if its path leads elsewhere later", async () => {
    write("a/x.log", "x");
    await start();
    rmSync(log("a/x.log"));
    symlinkSync("/etc/passwd", log("a/x.log"));
    expect(readable()).toEqual({ "a/x.log": "x" });
    await pass();
    expect(readable()).toEqual({ "a/x.log": "x" });
    expect(files.status().notRead).toEqual({ outside: 1 });
    expect(said).toEqual(["links that lead outside of LOG_PATHS_ALLOWED are not read; add targets that should be read to it"]);
  });

  test("a renamed file under its new name, and the new file of the old name", async () => {
    write("a/x.log", "old");
    await start();
    renameSync(log("a/x.log"), log("a/z.log"));
    write("a/x.log", "new");
    await pass();
    expect(readable()).toEqual({ "a/x.log": "new", "a/z.log": "old" });
  });

  test("a removed file until the collector has read it to its end, and then leaves no open descriptor", async () => {
    const before = descriptors();
    write("a/x.log", "x");
    await start();
    renameSync(log("a/x.log"), log("a/x.old"));
    await pass();
    appendFileSync(log("a/x.old"), "more");
    for (let restarts = 0; restarts < 5; restarts++) {
      collectorReads(1);
      await pass(11_000);
    }
    offsets = undefined;
    await pass(11_000);
    expect(readable()).toEqual({ "a/x.log": "xmore" });
    collectorReads(5);
    await pass(11_000);
    expect(readable()).toEqual({});
    await pass();
    expect(descriptors()).toBe(before);
  });

  test("a removed file that the collector never reads until it is older than LOG_MAX_AGE", async () => {
    write("a/x.log", "x");
    await start();
    rmSync(log("a/x.log"));
    await pass(3_500_000);
    expect(readable()).toEqual({ "a/x.log": "x" });
    await pass(200_000);
    expect(readable()).toEqual({});
  });

  test("files that were created and rotated out of the patterns between two passes, under their first name", async () => {
    write("a/x.log", "1");
    await start();
    for (const text of ["2", "3", "4"]) {
      for (const number of [3, 2, 1]) {
        const [from, to] = [log(`a/x.log${number === 1 ? "" : `.${number - 1}`}`), log(`a/x.log.${number}`)];
        if (existsSync(from)) renameSync(from, to);
      }
      write("a/x.log", text);
    }
    await pass();
    const texts = (): string[] =>
      readdirSync(join(root, "state/links"))
        .map((link) => readFileSync(join(root, "state/links", link), "utf8"))
        .toSorted();
    expect(texts()).toEqual(["1", "2", "3", "4"]);
    expect(Object.keys(readable())).toEqual(["a/x.log"]);
    collectorReads(1);
    // One pass: files that were created in the last two seconds of the real clock would be opened again by the next one.
    await pass(11_000);
    expect(texts()).toEqual(["4"]);
  });

  test("no older rotated file, and none of a program that writes to a name with a date", async () => {
    for (const name of ["x.log", "x.log.2", "x.log-20261128"]) {
      write(`a/${name}`, name);
      utimesSync(log(`a/${name}`), nowMs / 1000 - 60, nowMs / 1000 - 60);
    }
    // Rotated files of the last two seconds may be unknown.
    await sleep(2100);
    writeFileSync(join(root, "state/offsets"), "");
    await start();
    write("a/y.log.2026-11-29", "new");
    write("a/x.log.gz", "new");
    await pass();
    expect(readable()).toEqual({ "a/x.log": "x.log" });
  });

  test("what an earlier agent had not read of a file that was rotated out of the patterns before this one started", async () => {
    for (const name of ["x.log", "y.log"]) write(`a/${name}`, "text");
    await start();
    collectorReads(4);
    const known = [...(offsets ?? [])];
    await files[Symbol.asyncDispose]();
    offsets = new Map(known.map(([path]) => [path, [path.includes("x.log") ? 3 : 4]]));
    for (const name of ["x.log", "y.log"]) renameSync(log(`a/${name}`), log(`a/${name}.2`));
    // Rotated files of the last two seconds may be unknown.
    await sleep(2100);
    utimesSync(join(root, "state/offsets"), new Date(), new Date());
    await start();
    expect(readable()).toEqual({ "a/x.log": "text" });
  });

  test("a file that was created and rotated while no agent ran, and has the inode of a removed one", async () => {
    write("a/x.log", "current");
    write("a/x.log.1", "new");
    const removed = linkName(fileId(statSync(log("a/x.log.1"), { bigint: true })), log("a/x.log"));
    offsets = new Map([[join(root, "state/links", removed), [1000]]]);
    await start();
    expect(readdirSync(join(root, "state/links"))).toHaveLength(2);
  });

  test("each file of a program that replaces its file more often than passes are due", async () => {
    write("a/x.log", "0");
    await start({ passEveryMs: 5000 });
    // The first one makes the folder active; without that, a file is opened 5 s after the one before it.
    for (const number of [1, 2, 3]) {
      writeFileSync(log("a/x.new"), String(number));
      renameSync(log("a/x.new"), log("a/x.log"));
      const opened = (): void => expect(readdirSync(join(root, "state/links"))).toHaveLength(number + 1);
      await vi.waitFor(opened, { timeout: number === 1 ? 20_000 : 4500, interval: 20 });
    }
  }, 40_000);

  test("no file older than LOG_MAX_AGE until it changes", async () => {
    write("a/x.log", "x");
    utimesSync(log("a/x.log"), 1, 1);
    await start();
    expect(readable()).toEqual({});
    appendFileSync(log("a/x.log"), "y");
    await pass(11_000);
    expect(readable()).toEqual({ "a/x.log": "xy" });
  });

  test("no links of an earlier agent", async () => {
    mkdirSync(join(root, "state/links/long/a"), { recursive: true });
    symlinkSync("/etc/passwd", join(root, "state/links/left"));
    await start();
    expect(readdirSync(join(root, "state/links"))).toEqual([]);
  });
});

describe("the status lists as not read", () => {
  test("files in UTF-16, even if they were empty when they were opened", async () => {
    writeFileSync(log("a/x.log"), Buffer.from("\uFEFFtext\n", "utf16le"));
    write("a/y.log", "");
    await start();
    expect(files.status()).toMatchObject({ open: 1, notRead: { encoding: 1 } });
    writeFileSync(log("a/y.log"), Buffer.from("\uFEFFtext\n", "utf16le").swap16());
    await pass(10_000);
    await pass();
    expect(files.status()).toMatchObject({ open: 0, notRead: { encoding: 2 } });
    expect(said).toEqual([expect.stringMatching(/^compressed log files, and those in UTF-16 or UTF-32, are not read/)]);
  });

  test("compressed files", async () => {
    write("a/x.log", "text\n");
    const [xz, bzip2] = ["fd377a585a000004e6d6b446", "425a68393141592653598f5c5d5c"].map((hex) => Buffer.from(hex, "hex"));
    const compressed = [gzipSync("text\n"), zstdCompressSync("text\n"), xz, bzip2];
    for (const [index, bytes] of compressed.entries()) writeFileSync(log(`a/${index}.log`), bytes ?? "");
    await start();
    expect([readable(), files.status().notRead]).toEqual([{ "a/x.log": "text\n" }, { encoding: 4 }]);
  });

  test("files and folders with names that are not UTF-8", async () => {
    await start();
    writeFileSync(Buffer.concat([Buffer.from(`${log("a")}/x`), Buffer.from([0xff]), Buffer.from(".log")]), "x");
    mkdirSync(Buffer.concat([Buffer.from(`${log("b")}/`), Buffer.from([0xe4])]));
    await pass();
    expect(files.status()).toMatchObject({ open: 0, notRead: { name: 2 } });
  });

  test.runIf(isRoot)("folders without permission, whose files are read once it is granted", async () => {
    write("a/x.log", "x");
    write("b/y.log", "y");
    chmodSync(log("a"), 0o700);
    chmodSync(log("b"), 0o744);
    changedLongAgo("a", "b");
    chmodSync(root, 0o755);
    chownSync(join(root, "state"), 65_534, 65_534);
    process.seteuid?.(65_534);
    try {
      await start();
      expect(files.status()).toMatchObject({ open: 0, notRead: { unreadable: 2 } });
      process.seteuid?.(0);
      for (const folder of ["a", "b"]) chmodSync(log(folder), 0o755);
      process.seteuid?.(65_534);
      await pass(10_000);
      expect(readable()).toEqual({ "a/x.log": "x", "b/y.log": "y" });
      expect(files.status().notRead).toEqual({});
    } finally {
      process.seteuid?.(0);
    }
  });

  test("links to folders outside of LOG_PATHS_ALLOWED, but not those to folders that are read anyway", async () => {
    write("a/x.log", "x");
    symlinkSync(join(root, "state"), log("outside"));
    symlinkSync("a", log("inside"));
    symlinkSync("nowhere", log("dangling"));
    symlinkSync("loop", log("loop"));
    await start();
    expect([readable(), files.status().notRead]).toEqual([{ "a/x.log": "x" }, { outside: 1 }]);
  });

  test("nothing any more that was solved, even if the clock was set back meanwhile", async () => {
    writeFileSync(join(root, "state/x"), "");
    symlinkSync(join(root, "state/x"), log("a/x.log"));
    write("b/y.log", "");
    nowMs += 1_800_000;
    await start();
    expect(files.status().notRead).toEqual({ outside: 1 });
    changedLongAgo("a", "b");
    writeFileSync(log("b/y.log"), Buffer.from("\uFEFFtext\n", "utf16le"));
    await pass(-1_800_000);
    rmSync(log("a/x.log"));
    write("a/x.log", "x");
    await pass();
    expect([readable(), files.status().notRead]).toEqual([{ "a/x.log": "x" }, { encoding: 1 }]);
  });

  test("files for which the disk has no link left, with that reason", async () => {
    write("a/x.log", "x");
    await start();
    write("b/y.log", "y");
    vi.spyOn(OpenFiles.prototype, "link").mockRejectedValue(Object.assign(new Error("no space"), { code: "ENOSPC" }));
    await pass();
    expect(files.status()).toMatchObject({ open: 2, notRead: { link: 1 } });
    vi.restoreAllMocks();
    await pass();
    expect(files.status().notRead).toEqual({});
  });

  test("FIFOs and sockets, also behind links, and names them in the log once", async () => {
    execFileSync("mkfifo", [log("a/fifo.log")]);
    symlinkSync("fifo.log", log("a/link.log"));
    symlinkSync("a", log("folder.log"));
    const server = createServer();
    await once(server.listen(log("b/socket.log")), "listening");
    await start();
    await pass();
    server.close();
    expect(files.status()).toMatchObject({ open: 0, notRead: { special: 3 } });
    expect(said).toEqual(["FIFOs, sockets and devices are not read; narrow LOG_PATHS"]);
  });

  test("a file that starts like another one, for thirty seconds or until they differ", async () => {
    const banner = `${"licence ".repeat(600)}\n`;
    write("a/x.log", banner);
    write("a/y.log", `${banner}y`);
    write("b/short.log", "started\n");
    write("b/other.log", "started\n");
    await start();
    await pass(29_000);
    expect(files.status().notRead).toEqual({});
    appendFileSync(log("b/other.log"), "differs now\n");
    await pass(11_000);
    expect(files.status().notRead).toEqual({ alike: 1 });
    expect(said).toEqual([expect.stringMatching(/^log files begin with the same bytes as another log file/)]);
    write("a/x.log", "rotated by truncation\n");
    await pass(11_000);
    expect(files.status().notRead).toEqual({});
  });
});

test("a file whose link would have too long a path is listed as not read, and all others are read", async () => {
  const deep = `a/${`${"%".repeat(240)}/`.repeat(6)}`;
  mkdirSync(log(deep), { recursive: true });
  write(`${deep}x.log`, "deep");
  write("b/x.log", "read");
  await start();
  expect(files.status()).toMatchObject({ open: 2, notRead: { name: 1 } });
});

test("as many rotated files in one folder as are listed do not end a pass", async () => {
  write("a/x.log", "read");
  // Names that are not there, because looking for each would take seconds.
  const rotated: string[] = [];
  rotated.length = 200_000;
  vi.spyOn(LogTree.prototype, "pass").mockImplementation(async function* () {
    yield { files: [log("a/x.log")], links: [], rotated, isNews: true };
  });
  await start();
  expect([readable(), said]).toEqual([{ "a/x.log": "read" }, []]);
});

test("a file that was copied and truncated is not alike to its copy, even if it has more bytes than at first", async () => {
  const lines = (first: number, count: number): string =>
    Array.from({ length: count }, (_, index) => `${first + index} ${"x".repeat(90)}\n`).join("");
  write("a/x.log", lines(0, 50));
  await start();
  await pass(10_000);
  appendFileSync(log("a/x.log"), lines(50, 150));
  await pass(10_000);
  write("a/x-20261130.log", lines(0, 200));
  write("a/x.log", lines(200, 60));
  await pass(10_000);
  await pass(31_000);
  expect(files.status().notRead).toEqual({});
});

describe("the number of open files", () => {
  test("is limited, and the files beyond the limit are reported", async () => {
    for (let i = 0; i < 5; i++) write(`a/${i}.log`, "x");
    await start({ maxOpen: 3 });
    expect(files.status()).toMatchObject({ open: 3, notRead: { limit: 2 } });
    expect(said).toEqual(["the limit of open log files is reached, others are not read; narrow LOG_PATHS"]);
  });

  test.runIf(isRoot)("is shared by user: one user's files take no slots from another's", async () => {
    for (let i = 0; i < 10; i++) {
      write(`a/${i}.log`, "x");
      chownSync(log(`a/${i}.log`), 65_534, 65_534);
    }
    await start({ maxOpen: 4 });
    write("b/x.log", "of root");
    await pass();
    await pass();
    expect(readable()["b/x.log"]).toBe("of root");
    expect(files.status()).toMatchObject({ open: 4, notRead: { limit: 7 } });
  });
});
