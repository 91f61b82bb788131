// A lock between processes of one machine: a file that names its holder by process id and start time, so that a crashed holder
// (or another process that got its id) blocks no other process. Plain JavaScript, node: only, because hack/bootstrap.mjs needs it before
// anything is installed; hack/tools/obtain.ts uses it too.
import { linkSync, mkdirSync, readFileSync, rmSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const POLL_MS = 100;
/** Breaking a stale lock takes microseconds; a process that left a mark this old has exited. */
const BREAKING_MS = 10_000;

/**
 * Waits until the lock at `path` is free or its holder has exited, acquires it, and resolves to the function that releases it. If it has to
 * wait, `onWait` is called once with the holder's process id.
 */
export async function acquireLock(path, onWait = () => {}) {
  mkdirSync(dirname(path), { recursive: true });
  const mine = `${process.pid} ${startTime(process.pid)}`;
  for (let isReported = false; !take(path, mine);) {
    const holder = read(path);
    if (holder !== undefined && !isAlive(holder)) breakStale(path, holder);
    else {
      if (!isReported && holder !== undefined) onWait(Number(holder.split(" ")[0]));
      isReported = isReported || holder !== undefined;
      await sleep(POLL_MS);
    }
  }
  return () => {
    if (read(path) === mine) unlinkSync(path);
  };
}

/** A hard link appears atomically with its content, so no process ever reads a half-written lock. */
function take(path, mine) {
  const draft = `${path}.${process.pid}.${Math.random().toString(36).slice(2)}`;
  writeFileSync(draft, mine);
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
    return false;
  } finally {
    unlinkSync(draft);
  }
}

/**
 * Only one process at a time may break a stale lock, and it reads the lock again first: otherwise a second one would remove the lock of a
 * new holder.
 */
function breakStale(path, holder) {
  const mark = `${path}.breaking`;
  try {
    if (Date.now() - statSync(mark).mtimeMs > BREAKING_MS) rmSync(mark, { force: true });
  } catch {
    // There is no mark, so no process is breaking the lock.
  }
  try {
    writeFileSync(mark, "", { flag: "wx" });
  } catch {
    return;
  }
  if (read(path) === holder) rmSync(path, { force: true });
  rmSync(mark, { force: true });
}

function read(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function isAlive(holder) {
  const [pid, started] = holder.split(" ");
  try {
    process.kill(Number(pid), 0);
  } catch (error) {
    // EPERM: the process runs and belongs to another user.
    if (error.code !== "EPERM") return false;
  }
  return startTime(Number(pid)) === started;
}

/** Field 22 of /proc/<pid>/stat, in clock ticks since boot; "0" if there is no /proc. */
function startTime(pid) {
  const stat = read(`/proc/${pid}/stat`);
  if (stat === undefined) return "0";
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
}
