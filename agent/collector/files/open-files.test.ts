// This process itself acts as another user of the host: what matters is which file is opened, not who replaced it. RACES=10000 runs more.
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  mkdtempSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { closeFile, openLogFile, type OpenLogFile, type Refusal } from "./open-files.ts";

const RACES = Number(process.env["RACES"] ?? 3000);
const isRoot = process.getuid?.() === 0;

let root: string;
let log: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "atherops-open-"));
  log = join(root, "log");
  for (const folder of ["log/app", "secret"]) mkdirSync(join(root, folder), { recursive: true });
  writeFileSync(join(root, "secret/x.log"), "TOP SECRET\n", { mode: 0o600 });
  writeFileSync(join(log, "app/good.log"), "fine\n");
});
afterEach(() => rmSync(root, { recursive: true }));

const mayRead = (path: string): boolean => path.startsWith(`${log}/`);

/** Text of the file, or why it is not read. */
async function read(path: string): Promise<string> {
  return textOf(await openLogFile(path, mayRead));
}

async function textOf(opened: OpenLogFile | Refusal): Promise<string> {
  if (typeof opened === "string") return opened;
  const buffer = Buffer.alloc(100);
  const length = readSync(opened.fd, buffer, 0, 100, 0);
  await closeFile(opened.fd);
  return buffer.toString("utf8", 0, length);
}

describe("a log file", () => {
  test("is opened", async () => {
    expect(await read(join(log, "app/good.log"))).toBe("fine\n");
  });

  test("is rejected if it is a link, is behind a linked folder that leads outside, or is no regular file", async () => {
    symlinkSync(join(root, "secret/x.log"), join(log, "app/x.log"));
    symlinkSync(join(root, "secret"), join(log, "linked"));
    execFileSync("mkfifo", [join(log, "fifo.log")]);
    mkdirSync(join(log, "folder.log"));
    expect(await read(join(log, "app/x.log"))).toBe("outside");
    expect(await read(join(log, "linked/x.log"))).toBe("outside");
    expect(await read(join(log, "fifo.log"))).toBe("special");
    expect(await read(join(log, "folder.log"))).toBe("special");
    expect(await read(join(log, "none.log"))).toBe("gone");
  });

  test.runIf(isRoot)("with a second hard link is rejected in a folder where another user may have created it", async () => {
    linkSync(join(root, "secret/x.log"), join(log, "app/x.log"));
    expect(await read(join(log, "app/x.log"))).toBe("TOP SECRET\n");
    chmodSync(join(log, "app"), 0o777);
    expect(await read(join(log, "app/x.log"))).toBe("hard_link");
    chmodSync(join(log, "app"), 0o755);
    chownSync(join(log, "app"), 65_534, 65_534);
    expect(await read(join(log, "app/x.log"))).toBe("hard_link");
    chownSync(join(log, "app/x.log"), 65_534, 65_534);
    expect(await read(join(log, "app/x.log"))).toBe("TOP SECRET\n");
  });

  test(`that is replaced by a link while it is opened never exposes the link's target (${RACES} races)`, async () => {
    // Replaces the file, and its folder, as fast as it can.
    const swap = `
      const { parentPort, workerData: { log, secret } } = require("node:worker_threads");
      const fs = require("node:fs");
      fs.mkdirSync(log + "/spare");
      fs.writeFileSync(log + "/spare/x.log", "fine\\n");
      fs.symlinkSync(secret, log + "/linked");
      fs.symlinkSync(secret + "/x.log", log + "/link.log");
      fs.writeFileSync(log + "/plain.log", "fine\\n");
      parentPort.postMessage("ready");
      const round = () => {
        for (let i = 0; i < 200; i++) {
          fs.renameSync(log + "/spare", log + "/d"); fs.renameSync(log + "/d", log + "/spare");
          fs.renameSync(log + "/linked", log + "/d"); fs.renameSync(log + "/d", log + "/linked");
          fs.renameSync(log + "/plain.log", log + "/x.log"); fs.renameSync(log + "/x.log", log + "/plain.log");
          fs.renameSync(log + "/link.log", log + "/x.log"); fs.renameSync(log + "/x.log", log + "/link.log");
        }
        setImmediate(round);
      };
      round();`;
    const worker = new Worker(swap, { eval: true, workerData: { log, secret: join(root, "secret") } });
    await new Promise((done) => worker.once("message", done));
    const before = readdirSync("/proc/self/fd").length;
    const came: Record<string, number> = {};
    for (let race = 0; race < RACES; race++) {
      const text = await read(join(log, race % 2 === 0 ? "x.log" : "d/x.log"));
      came[text] = (came[text] ?? 0) + 1;
    }
    await worker.terminate();
    console.log(came);
    expect(came["TOP SECRET\n"]).toBeUndefined();
    expect(readdirSync("/proc/self/fd").length).toBeLessThanOrEqual(before);
  });

  test("stays the opened file after its path leads elsewhere", async () => {
    const opened = (await openLogFile(join(log, "app/good.log"), mayRead)) as OpenLogFile;
    rmSync(join(log, "app/good.log"));
    symlinkSync(join(root, "secret/x.log"), join(log, "app/good.log"));
    expect(readFileSync(`/proc/self/fd/${opened.fd}`, "utf8")).toBe("fine\n");
    renameSync(join(root, "secret/x.log"), join(root, "secret/y.log"));
    expect(await textOf(opened)).toBe("fine\n");
  });
});
