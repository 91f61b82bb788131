import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Credential } from "../credentials/credential-store.ts";
import { credentialsFor, waitForIdentityChange } from "./claim.ts";
import { ClaimedState, type KnownIdentity, StateDir } from "./state-dir.ts";

let root: string;
let claimed: ClaimedState[];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "atherops-state-"));
  claimed = [];
});
afterEach(() => {
  for (const state of claimed) state[Symbol.dispose]();
  rmSync(root, { recursive: true });
});

const key = (id: string, change: Partial<Credential> = {}): Credential => ({
  id,
  apiKey: `ak_${id}`,
  keyCreatedAt: "2026-01-01T00:00:00Z",
  org: `org-of-${id}`,
  ...change,
});
const NOT_ENROLLED: KnownIdentity = { credential: undefined, isKnown: true };
const UNKNOWN: KnownIdentity = { credential: undefined, isKnown: false };
const as = (credential: Credential): KnownIdentity => ({ credential, isKnown: true });

/** Claims a folder as an agent of `installation`. */
function claim(who: KnownIdentity, installation = "telemetry/secret"): ClaimedState | string {
  const dir = new StateDir({ root, installation, holder: `pod of ${installation}`, log: pino({ level: "silent" }) });
  const answer = dir.claim(who);
  if (typeof answer !== "string") claimed.push(answer);
  return answer;
}

function held(who: KnownIdentity, installation?: string): ClaimedState {
  const answer = claim(who, installation);
  if (typeof answer === "string") throw new Error(answer);
  return answer;
}

/** An agent that ran as `credential`, collected something and is gone. */
function leftBy(credential: Credential, installation?: string): string {
  const state = held(as(credential), installation);
  writeFileSync(join(mkdirs(state.folder, "queue"), "undelivered"), credential.id);
  state[Symbol.dispose]();
  return state.folder;
}

function mkdirs(...parts: string[]): string {
  const folder = join(...parts);
  mkdirSync(folder, { recursive: true });
  return folder;
}

const leftWithoutMark = () => writeFileSync(join(mkdirs(root, "queue"), "undelivered"), "of an agent that made no marks");
const undelivered = (folder: string) => readFileSync(join(folder, "queue", "undelivered"), "utf8");

describe("the state on a node", () => {
  test("of the first identity stays at its original path, and is its own again after a restart", () => {
    expect(leftBy(key("a"))).toBe(root);
    expect(held(as(key("a"))).folder).toBe(root);
  });

  test("of another organisation is not given to or changed by the next, in any namespace, and its owner finds it again", () => {
    leftBy(key("a"));
    for (const installation of ["telemetry/secret", "orgb/secret"]) {
      const b = held(as(key("b")), installation);
      expect(b.folder).toBe(join(root, "identities", "b"));
      expect(existsSync(join(b.folder, "queue"))).toBe(false);
      b[Symbol.dispose]();
    }
    expect(undelivered(root)).toBe("a");
    expect(held(as(key("a")), "elsewhere/secret").folder).toBe(root);
  });

  test("of others is listed with its owner and the size of its queue", () => {
    leftBy(key("a"));
    leftBy(key("b"), "orgb/secret");
    const dir = new StateDir({ root, installation: "c/secret", holder: "c", log: pino({ level: "silent" }) });
    expect(dir.others(held(as(key("c")), "c/secret").folder)).toEqual([
      { folder: root, id: "a", installation: "telemetry/secret", bytes: 1 },
      { folder: join(root, "identities", "b"), id: "b", installation: "orgb/secret", bytes: 1 },
    ]);
  });

  test("is not opened before enrolment, unless there is none", () => {
    const fresh = held(NOT_ENROLLED);
    expect(fresh.folder).toBe(root);
    fresh[Symbol.dispose]();
    expect(claim(NOT_ENROLLED, "other/secret")).toMatch(/collector starts when this agent is enrolled/);
    expect(held(NOT_ENROLLED).folder).toBe(root);
    claimed.pop()?.[Symbol.dispose]();
    leftBy(key("a"));
    expect(claim(NOT_ENROLLED)).toMatch(/state of another or an unknown installation/);
  });

  test("that was collected before enrolment belongs to the identity that enrols", () => {
    const state = held(NOT_ENROLLED);
    writeFileSync(join(mkdirs(state.folder, "queue"), "undelivered"), "early");
    expect(state.accepts(key("a"))).toBe(true);
    expect(state.owner).toBe("a");
    expect(state.accepts(key("b"))).toBe(false);
    state[Symbol.dispose]();
    expect(held(as(key("b"))).folder).not.toBe(root);
    expect(held(as(key("a"))).folder).toBe(root);
  });

  test("is collected into while the identity is unknown, and sent only if it is the same", () => {
    leftBy(key("a"));
    expect(claim(UNKNOWN, "other/secret")).toMatch(/can read its key/);
    const state = held(UNKNOWN);
    expect(state.folder).toBe(root);
    expect(state.accepts(key("b"))).toBe(false);
    expect(state.accepts(key("a"))).toBe(true);
  });

  test("is closed if the agent turns out to be another or not enrolled", async () => {
    leftBy(key("a"));
    const stopped = new AbortController();
    for (const now of [undefined, key("b")]) {
      const state = held(UNKNOWN);
      await waitForIdentityChange(state, { current: () => now, isKnown: () => true }, stopped.signal);
      state[Symbol.dispose]();
    }
    const state = held(UNKNOWN);
    let isOver = false;
    const over = waitForIdentityChange(state, { current: () => key("a"), isKnown: () => true }, stopped.signal).then(() => (isOver = true));
    await setImmediate();
    expect(isOver).toBe(false);
    stopped.abort();
    await over;
  });

  test("is inherited by a cluster that is enrolled again in its organisation, by the same installation only", () => {
    const running = held(as(key("a", { org: undefined })));
    mkdirs(root, "queue");
    running.noteOrg("a", "org-1");
    const again = key("a2", { org: "org-1" });
    expect(running.accepts(key("other", { org: "org-2" }))).toBe(false);
    expect(running.accepts(key("nameless", { org: undefined }))).toBe(false);
    expect(running.accepts(again)).toBe(true);
    running[Symbol.dispose]();
    const third = key("a3", { org: "org-1" });
    expect(held(as(third), "other/secret").folder).toBe(join(root, "identities", "a3"));
    expect(held(as(again), "other/secret").folder).toBe(root);
  });

  test("without a mark belongs to an unknown agent", () => {
    leftWithoutMark();
    expect(claim(NOT_ENROLLED)).toMatch(/unknown/);
    expect(claim(UNKNOWN)).toMatch(/unknown/);
    expect(held(as(key("a"))).folder).toBe(join(root, "identities", "a"));
    expect(undelivered(root)).toContain("no marks");
  });

  test("with an unreadable mark belongs to another agent", () => {
    leftBy(key("a"));
    writeFileSync(join(root, "owner.json"), "");
    expect(held(as(key("a"))).folder).toBe(join(root, "identities", "a"));
  });

  test("keeps an id of the backend within its folder", () => {
    leftBy(key("a"));
    expect(held(as(key("../../etc"))).folder).toMatch(/identities\/[0-9a-f]{64}$/);
    expect(readdirSync(root)).toContain("identities");
  });

  test("that is not writable is reported with what to do", () => {
    writeFileSync(join(root, "file"), "");
    const dir = new StateDir({ root: join(root, "file", "x"), installation: "i", holder: "h", log: pino({ level: "silent" }) });
    expect(() => dir.claim(as(key("a")))).toThrow(/^STATE_DIR \S+: .* set it to a writable folder/);
  });

  test("is signed by its own identity only", async () => {
    const state = held(as(key("a")));
    let now: Credential | undefined = key("a");
    const source = credentialsFor(state, { current: () => now, refresh: () => Promise.resolve(now) });
    expect(source.current()?.apiKey).toBe("ak_a");
    now = key("b");
    expect([source.current(), await source.refresh("401")]).toEqual([undefined, undefined]);
  });
});

const NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];

function canUnshare(): boolean {
  try {
    execFileSync(NAMESPACE[0]!, [...NAMESPACE.slice(1), "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** A process that claims the state of cluster `a` and says its pid. */
async function otherAgent(prefix: string[]): Promise<{ child: ChildProcess; pid: string }> {
  const options = JSON.stringify({ root, installation: "one/secret", holder: "pod one/agent-x, node n" });
  const code = `import { StateDir } from ${JSON.stringify(new URL("state-dir.ts", import.meta.url).href)};
    const dir = new StateDir({ ...${options}, log: { info() {}, warn() {} } });
    globalThis.state = dir.claim({ credential: ${JSON.stringify(key("a"))}, isKnown: true });
    console.log(process.pid, typeof globalThis.state);
    setInterval(() => {}, 1000);`;
  const [program, ...args] = [...prefix, process.execPath, "--input-type=module", "-e", code];
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  const [said] = (await once(child.stdout, "data")) as [Buffer];
  const [pid = "", what] = said.toString().trim().split(" ");
  expect(what).toBe("object");
  return { child, pid };
}

describe("two agents of one identity on one node", () => {
  const printed = async (prefix: string[]): Promise<string> => {
    const { child, pid } = await otherAgent(prefix);
    const before = readFileSync(join(root, "owner.json"), "utf8");
    expect(claim(as(key("a")), "two/secret")).toMatch(
      /^another agent uses \S+ \(pod one\/agent-x, node n, since .*\): stop it, or set another STATE_DIR/,
    );
    expect(claim(UNKNOWN, "one/secret")).toMatch(/^another agent uses/);
    expect(readFileSync(join(root, "owner.json"), "utf8")).toBe(before);
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
    await expect.poll(() => typeof claim(as(key("a")), "two/secret")).toBe("object");
    return pid;
  };

  test("are detected: the second is rejected and changes nothing until the first is killed", async () => {
    expect(await printed([])).not.toBe("1");
  });

  test.skipIf(!canUnshare())("are detected if both have pid 1 (needs root)", async () => {
    expect(await printed(NAMESPACE)).toBe("1");
  });
});

describe("other users of the machine", () => {
  test.each([0o755, 0o750])("cannot open the lock in a folder with mode %o", (mode) => {
    chmodSync(root, mode);
    writeFileSync(join(root, "lock"), "", { mode: 0o644 });
    held(as(key("a")));
    expect([statSync(root).mode & 0o777, statSync(join(root, "lock")).mode & 0o777]).toEqual([0o700, 0o600]);
  });

  test("cannot open the lock file, whatever the umask", () => {
    const before = process.umask(0);
    try {
      held(as(key("a")));
    } finally {
      process.umask(before);
    }
    expect(statSync(join(root, "lock")).mode & 0o777).toBe(0o600);
  });

  test("keep access to their folder if it is the STATE_DIR", () => {
    chmodSync(root, 0o755);
    writeFileSync(join(root, "something-else"), "");
    held(as(key("a")));
    expect(statSync(root).mode & 0o777).toBe(0o755);
  });
});
