import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { canMount, SmallDisk } from "../collector/supervision/small-disk.fixture.ts";
import { type EnrolmentToken, enrolmentToken } from "../enrolment-token.ts";
import { CredentialsFile } from "../credentials/file.ts";
import { BackendError } from "../upstream/backend-api.ts";
import { readMachineId } from "./identity.ts";
import { HostIdentity, type HostIdentityOptions } from "./host-identity.ts";

const HOST = { hostname: "h", machine_id: "m", agent_version: "1" };
const UNREACHABLE = new BackendError("unreachable", "no answer");

let folder: string;
let path: string;
let identity: HostIdentity | undefined;
/** What the backend was asked: token and idempotency key. */
let calls: { token: string; key: string; machineId: string }[];
let refusedKeys: Set<string>;
let answers: (BackendError | undefined)[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "atherops-register-"));
  path = join(folder, "etc", "credentials.json");
  [calls, answers, refusedKeys] = [[], [], new Set()];
});
afterEach(async () => {
  await identity?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const backend: HostIdentityOptions["backend"] = {
  registerHost: (token, key, { machine_id: machineId }) => {
    calls.push({ token, key, machineId });
    const error = answers.shift();
    if (error) return Promise.reject(error);
    return Promise.resolve({ body: { agent_id: "id", api_key: `ak_${token}`, key_created_at: "2026-01-01T00:00:00Z" }, org: "org" });
  },
  heartbeat: (_path, credential) =>
    refusedKeys.has(credential.apiKey)
      ? Promise.reject(new BackendError("revoked_key", "the key was revoked", { status: 401 }))
      : Promise.resolve({ body: undefined, keyAgeDays: 0 }),
};

function start(
  token: string | (() => EnrolmentToken | undefined) | undefined,
  log = pino({ level: "silent" }),
  systemId = "m",
): HostIdentity {
  identity = new HostIdentity({
    file: new CredentialsFile(path),
    token: typeof token === "function" ? token : () => enrolmentToken(token, undefined),
    host: { ...HOST, machine_id: systemId },
    systemId,
    backend,
    log,
    backoffMs: [5, 20],
  });
  return identity;
}

async function enrolled(of: HostIdentity): Promise<string> {
  await expect.poll(() => of.current()).toBeDefined();
  return of.current()?.apiKey ?? "";
}

describe("the host's identity", () => {
  test("is enrolled once, stored in a file of mode 0600, and read from it later", async () => {
    expect(await enrolled(start("one"))).toBe("ak_one");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    await identity?.[Symbol.asyncDispose]();
    expect(start("one").current()).toMatchObject({ apiKey: "ak_one", org: "org" });
    expect(calls).toHaveLength(1);
  });

  test("stores its Idempotency-Key before the request, and repeats the identical request after a crash", async () => {
    answers = Array.from({ length: 1000 }, () => UNREACHABLE);
    const first = start("one");
    await expect.poll(() => calls.length).toBeGreaterThan(0);
    expect(readFileSync(path, "utf8")).toContain(calls[0]?.key);
    expect(readFileSync(path, "utf8")).not.toContain('"one"');
    await first[Symbol.asyncDispose]();
    answers = [];
    await enrolled(start("one"));
    expect(new Set(calls.map(({ key }) => key)).size).toBe(1);
  });

  test("without a token or with a rejected one, logs what to do and does not retry", async () => {
    const without = start(undefined);
    await expect.poll(() => without.status().problem?.message).toContain("atherops tokens create");
    await identity?.[Symbol.asyncDispose]();
    answers = [new BackendError("invalid_install_token", "used", { status: 401 })];
    const of = start("spent");
    await expect.poll(() => of.status().problem?.code).toBe("install_token_refused");
    await of.refresh("test");
    await of[Symbol.asyncDispose]();
    expect(calls).toHaveLength(1);
  });

  test("enrols again with an unused token if its key is rejected, never with the used one", async () => {
    await enrolled(start("one"));
    refusedKeys.add("ak_one");
    await identity?.refresh("answer 401");
    await expect.poll(() => identity?.status().problem?.code).toBe("key_refused");
    expect(calls).toHaveLength(1);
    await identity?.[Symbol.asyncDispose]();
    const again = start("two");
    await again.refresh("answer 401");
    await expect.poll(() => again.current()?.apiKey).toBe("ak_two");
  });

  describe("with an identity token", () => {
    const identityToken = (text: string) => enrolmentToken(undefined, text);

    test("enrols with the token of the moment and one Idempotency-Key, once the backend trusts its issuer", async () => {
      let signed = 0;
      answers = [401, 403, 409].map((status) => new BackendError("invalid_install_token", "not trusted", { status }));
      const of = start(() => identityToken(`signed ${(signed += 1)}`));
      const key = await enrolled(of);
      expect(calls).toHaveLength(4);
      expect(new Set(calls.map(({ key: idempotencyKey }) => idempotencyKey)).size).toBe(1);
      expect(new Set(calls.map(({ token }) => token)).size).toBe(4);
      expect(key).toBe(`ak_${calls.at(-1)?.token}`);
      expect(readFileSync(path, "utf8")).not.toContain('"signed');
      expect(of.status().problem).toBeUndefined();
    });

    test("enrols again by itself if its key is rejected", async () => {
      let text = "first";
      const of = start(() => identityToken(text));
      await enrolled(of);
      text = "second";
      refusedKeys.add("ak_first");
      await of.refresh("answer 401");
      await expect.poll(() => of.current()?.apiKey).toBe("ak_second");
    });

    test("a clone enrols as a host of its own, and keeps its key if the backend refuses that", async () => {
      const silent = pino({ level: "silent" });
      const token = () => identityToken("signed");
      await enrolled(start(token, silent, "original's"));
      await identity?.[Symbol.asyncDispose]();
      answers = [new BackendError("forbidden", "another subject", { status: 403 })];
      const refused = start(token, silent, "its own");
      await expect.poll(() => refused.status()).toMatchObject({ signs: true, problem: { code: "machine_id_changed" } });
      await refused[Symbol.asyncDispose]();
      await enrolled(start(token, silent, "its own"));
      expect(calls.map(({ machineId }) => machineId)).toEqual(["original's", "its own", "its own"]);
    });
  });

  test("a clone with a new machine id discards the original's registration and registers with the same unused token", async () => {
    const silent = pino({ level: "silent" });
    answers = Array.from({ length: 1000 }, () => new BackendError("host_in_use", "the host h is alive: …", { status: 409 }));
    const clone = start("one", silent, "original's");
    await expect.poll(() => clone.status().problem).toMatchObject({ code: "host_in_use", message: expect.stringContaining("h is alive") });
    await clone[Symbol.asyncDispose]();
    answers = [];
    expect(await enrolled(start("one", silent, "its own"))).toBe("ak_one");
    expect(calls.at(-1)?.machineId).toBe("its own");
    expect(calls.at(-1)?.key).not.toBe(calls[0]?.key);
  });

  test("a copied key is replaced with an unused token if the machine id differs, and until then used with a warning", async () => {
    const silent = pino({ level: "silent" });
    await enrolled(start("one", silent, "original's"));
    await identity?.[Symbol.asyncDispose]();
    for (const token of [undefined, "one"]) {
      const warned = start(token, silent, "its own");
      expect(warned.current()?.apiKey).toBe("ak_one");
      await expect.poll(() => warned.status()).toMatchObject({ signs: true, problem: { code: "machine_id_changed" } });
      await warned[Symbol.asyncDispose]();
    }
    answers = [new BackendError("invalid_install_token", "expired", { status: 401 })];
    const refused = start("expired", silent, "its own");
    await expect.poll(() => refused.status().problem?.code).toBe("machine_id_changed");
    expect(refused.current()?.apiKey).toBe("ak_one");
    await refused[Symbol.asyncDispose]();
    const renewed = start("two", silent, "its own");
    expect(renewed.current()).toBeUndefined();
    expect(await enrolled(renewed)).toBe("ak_two");
    await renewed[Symbol.asyncDispose]();
    expect(start(undefined, silent, "its own").status().problem).toBeUndefined();
  });

  test("does not belong to the machine id of an image, which many hosts share", () => {
    const file = join(folder, "machine-id");
    const ids = ["", "uninitialized\n", "00000000000000000000000000000000\n", "0123456789abcdef0123456789abcdef\n"];
    const read = ids.map((text) => (writeFileSync(file, text), readMachineId(file)));
    expect(read).toEqual([undefined, undefined, undefined, "0123456789abcdef0123456789abcdef"]);
  });

  test("accepts a key of an earlier version without a machine id as this host's, and marks it", async () => {
    path = join(folder, "credentials.json");
    writeFileSync(path, JSON.stringify({ agent_id: "id", api_key: "ak", key_created_at: "" }));
    await start("two")[Symbol.asyncDispose]();
    expect(calls).toEqual([]);
    expect(JSON.parse(readFileSync(path, "utf8"))).toMatchObject({ api_key: "ak", machine_id: "m" });
  });

  test("reloads a file that another process replaced", async () => {
    await enrolled(start("one"));
    writeFileSync(path, JSON.stringify({ agent_id: "id", api_key: "ak_by_hand", key_created_at: "" }));
    expect((await identity?.refresh("answer 401"))?.apiKey).toBe("ak_by_hand");
  });

  test("keeps its token if the file cannot be written", async () => {
    path = "/sys/no-such-folder/credentials.json";
    const of = start("one");
    await expect.poll(() => of.status().problem?.message).toContain("credentials.json");
    expect(calls).toEqual([]);
  });

  test("logs no text of a damaged file", () => {
    path = join(folder, "credentials.json");
    writeFileSync(path, '{"api_key": "ak_half_a_ke');
    expect(() => start("one")).toThrow(/not JSON/);
    expect(() => start("one")).not.toThrow(/ak_half/);
    identity = undefined;
  });

  test("removes other users' read permission from the file", () => {
    path = join(folder, "credentials.json");
    writeFileSync(path, JSON.stringify({ agent_id: "id", api_key: "ak", key_created_at: "" }), { mode: 0o644 });
    start(undefined);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test("changes no permission of a folder or device that CREDENTIALS_FILE names by mistake, and says so", () => {
    chmodSync(folder, 0o755);
    path = folder;
    expect(() => start("one")).toThrow(`${folder} is not a file: set CREDENTIALS_FILE`);
    expect(statSync(folder).mode & 0o777).toBe(0o755);
  });

  test.skipIf(!canMount)("accepts a file that its group can read only on a read-only mount (needs root), with a warning", async () => {
    using disk = new SmallDisk(join(folder, "mounted"), "64k");
    path = join(disk.path, "credentials.json");
    writeFileSync(path, JSON.stringify({ agent_id: "id", api_key: "ak_mounted", key_created_at: "" }));
    const readOnly = (mode: number): void => {
      disk.writable();
      chmodSync(path, mode);
      disk.readOnly();
    };
    const warnings: string[] = [];
    const log = pino({ level: "warn" }, { write: (line) => void warnings.push(line) });
    readOnly(0o400);
    expect(start(undefined, log).current()?.apiKey).toBe("ak_mounted");
    expect(warnings).toEqual([]);
    await identity?.[Symbol.asyncDispose]();
    readOnly(0o440);
    expect(start(undefined, log).current()?.apiKey).toBe("ak_mounted");
    expect(warnings.join()).toContain("the group of the credentials file may read the key");
    for (const mode of [0o444, 0o404, 0o460, 0o644]) {
      readOnly(mode);
      expect(() => start(undefined)).toThrow(/grants more than read access to its group: mount it with mode 0400, or 0440/);
    }
  });
});
