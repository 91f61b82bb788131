import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readSettings } from "../../settings.ts";
import { blamesStore, reportEmptied, quarantineDamaged } from "./damaged-stores.ts";
import { configFromSettings } from "../config/config-from-settings.ts";
import { canMount, SmallDisk } from "./small-disk.fixture.ts";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { StateDirError } from "../../state/state-dir.ts";
import { ConfigFiles } from "./config-files.ts";

let folder: string;
let config: string;
let lines: { msg: string; moved_to?: string }[];
const log = pino({ level: "debug" }, { write: (line) => void lines.push(JSON.parse(line) as { msg: string }) });
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "atherops-stores-"));
  for (const store of ["queue", "checkpoints"]) mkdirSync(join(folder, store));
  const env = { BACKEND_URL: "http://127.0.0.1:1", STATE_DIR: folder, SIGNALS: "logs", LOG_PATHS: "/var/log/*.log", QUEUE_FSYNC: "true" };
  config = configFromSettings(readSettings("host", env).settings);
  lines = [];
});
afterEach(() => rmSync(folder, { recursive: true }));

const QUEUE = "exporter_otlp_http_files_logs";
const PLACES = "receiver_filelog_files";

function junk(path: string, bytes = 20_000): Buffer {
  const content = randomBytes(bytes);
  writeFileSync(join(folder, path), content);
  return content;
}

describe("a damaged file of the collector's storage", () => {
  test("is quarantined, and one log line names the file, the reason, its new path and the loss", async () => {
    const queue = junk(`queue/${QUEUE}`);
    junk(`checkpoints/${PLACES}`);
    const said = await quarantineDamaged(config, log);
    expect(readdirSync(join(folder, "queue"))).toEqual([`${QUEUE}.damaged`]);
    expect(readFileSync(join(folder, "queue", `${QUEUE}.damaged`))).toEqual(queue);
    expect(readdirSync(join(folder, "checkpoints"))).toEqual([`${PLACES}.damaged`]);
    expect(lines.map(({ msg }) => msg)).toEqual(said);
    expect(said).toEqual([
      `${folder}/queue/${QUEUE}, 20000 bytes, is damaged (neither of its two meta pages is valid) and was quarantined as ${folder}/queue/${QUEUE}.damaged. The collector starts without it. Undelivered logs in the disk queue of otlp_http/files are lost.`,
      `${folder}/checkpoints/${PLACES}, 20000 bytes, is damaged (neither of its two meta pages is valid) and was quarantined as ${folder}/checkpoints/${PLACES}.damaged. The collector starts without it. file_log/files's read positions are lost. It reads its files again from the beginning: no line is lost, and lines that were sent before arrive twice.`,
    ]);
  });

  test("of a receiver that starts at the end is logged with skipped lines", async () => {
    junk(`checkpoints/${PLACES}`);
    const [said] = await quarantineDamaged(config.replace("start_at: beginning", "start_at: end"), log);
    expect(said).toContain("lines written since the collector exited are skipped");
  });

  test("replaces the previous quarantined file, so that one is kept", async () => {
    junk(`queue/${QUEUE}`);
    await quarantineDamaged(config, log);
    const second = junk(`queue/${QUEUE}`);
    await quarantineDamaged(config, log);
    expect(readdirSync(join(folder, "queue"))).toEqual([`${QUEUE}.damaged`]);
    expect(readFileSync(join(folder, "queue", `${QUEUE}.damaged`))).toEqual(second);
    expect(await quarantineDamaged(config, log)).toEqual([]);
  });

  test.skipIf(!canMount)("is removed if the disk has no space for another one (needs root)", async () => {
    using _disk = new SmallDisk(join(folder, "queue"), "64k");
    junk(`queue/${QUEUE}`, 40_000);
    const [said] = await quarantineDamaged(config, log);
    expect(said).toContain("was removed because there is not enough disk space for a second copy");
    expect(readdirSync(join(folder, "queue"))).toEqual([]);
    expect(lines[0]).not.toHaveProperty("moved_to");
  });

  test("is found where the operator's configuration stores it", async () => {
    mkdirSync(join(folder, "$elsewhere"));
    junk(`$elsewhere/${QUEUE}`);
    await quarantineDamaged(config.replace(`directory: ${folder}/queue\n`, `directory: ${folder}/$$$$elsewhere\n`), log);
    expect(readdirSync(join(folder, "$elsewhere"))).toEqual([`${QUEUE}.damaged`]);
  });

  test("is not moved once the agent stops", async () => {
    junk(`queue/${QUEUE}`);
    expect(await quarantineDamaged(config, log, AbortSignal.abort())).toEqual([]);
    expect(readdirSync(join(folder, "queue"))).toEqual([QUEUE]);
    expect(lines).toEqual([]);
  });

  test("that is empty is left in place, and the log contains what it held", async () => {
    junk(`queue/${QUEUE}`, 0);
    expect(await quarantineDamaged(config, log)).toEqual([]);
    reportEmptied(config, log);
    expect(lines.map(({ msg }) => msg)).toEqual([
      `${folder}/queue/${QUEUE} is empty, as after a power failure; the collector will recreate it. If it contained data: Undelivered logs in the disk queue of otlp_http/files are lost.`,
    ]);
  });
});

test.each(["", "\0\0", "{", "extensions: 1", "receivers: {}"])("an invalid configuration (%j) throws no error", async (none) => {
  junk(`queue/${QUEUE}`);
  reportEmptied(none, log);
  expect(await quarantineDamaged(none, log)).toEqual([]);
  expect(readdirSync(join(folder, "queue"))).toEqual([QUEUE]);
});

describe("a line of the collector", () => {
  test.each([
    'Error: cannot start pipelines: failed to start "otlp_http/files" exporter: invalid database',
    'Error: cannot start pipelines: failed to start "file_log/files" receiver: storage client: file size too small 5000',
    "go.etcd.io/bbolt.(*DB).loadFreelist.func1()",
  ])("reports a damaged file: %s", (line) => expect(blamesStore(line)).toBe(true));

  test.each([
    'Error: cannot start pipelines: failed to start "otlp_http/files" exporter: timeout',
    'failed to start "otlp" receiver: listen tcp 127.0.0.1:4317: bind: address already in use',
    "write /state/queue/exporter_otlp_http_files_logs: no space left on device",
  ])("does not report a damaged file: %s", (line) => expect(blamesStore(line)).toBe(false));
});

test("an error about a validated configuration that cannot be written contains what to do", async () => {
  using folder = temporaryFolder();
  const files = new ConfigFiles(folder.path);
  let validated = 0;
  const adopted = files.adopt("receivers:\n", () => {
    validated++;
    mkdirSync(files.path);
    return Promise.resolve();
  });
  const error = await adopted.catch((thrown: unknown) => thrown as Error);
  expect(error).toBeInstanceOf(StateDirError);
  expect(String(error)).toMatch(/^StateDirError: STATE_DIR \S+: EISDIR: .*; set it to a writable folder$/);
  expect(validated).toBe(1);
});
