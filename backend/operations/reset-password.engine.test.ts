// The command `atherops-backend reset-password`, on both engines of the relational store, while a backend has it open.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accountsApp, type AccountsApp, brief, OPERATOR } from "../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../test/fixtures/each-store.ts";
import { baseEnvironment, temporaryFolder } from "../../test/fixtures/processes.ts";

async function reset(args: readonly string[], env: NodeJS.ProcessEnv, input = "") {
  const child = spawn(process.execPath, ["backend/main.ts", "reset-password", ...args], { env: { ...baseEnvironment(), ...env } });
  child.stdin.end(input);
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { code: child.exitCode, out, err };
}

describeOnEachStore((store) => {
  let backend: AccountsApp;
  beforeAll(async () => void (backend = await accountsApp(store.database, { env: { JWT_TTL: "30d" } })));
  afterAll(async () => await backend?.[Symbol.asyncDispose]());
  const logIn = async (password: string) => {
    const answer = await backend.call("POST", "/api/auth/login", { body: { email: OPERATOR.email, password } });
    return { status: answer.statusCode, token: answer.json().token as string };
  };

  test("lets the only operator in again with a password that is printed once, ends the sessions, and writes an entry of the audit log", async () => {
    const before = (await logIn(OPERATOR.password)).token;
    const { code, out, err } = await reset(["Root@localhost"], store.env);
    expect([code, out]).toEqual([0, expect.stringMatching(/^[\w-]{24}\n$/)]);
    expect(err).toBe("password of root@localhost (operator) set; the sessions of this user end within 5 seconds\n");
    backend.clock.ms += 5000;
    expect(brief(await backend.call("GET", "/api/users", { bearer: before }))).toEqual([401, "invalid_token"]);
    expect((await logIn(OPERATOR.password)).status).toBe(401);
    const { token } = await logIn(out.trim());
    const [entry] = (await backend.call("GET", "/api/audit?action=user.password", { bearer: token })).json();
    expect(entry).toMatchObject({
      actor: null,
      address: null,
      subject: { email: OPERATOR.email, command: "atherops-backend reset-password" },
    });
    expect(JSON.stringify(entry)).not.toContain(out.trim());
  });

  test("takes a password from stdin and prints none; a password that no login accepts changes nothing", async () => {
    expect(await reset(["--stdin", OPERATOR.email], store.env, "short\n")).toMatchObject({
      code: 2,
      out: "",
      err: expect.stringContaining("8 to 256"),
    });
    expect(await reset(["--stdin", OPERATOR.email], store.env, "another password\n")).toMatchObject({ code: 0, out: "" });
    expect((await logIn("another password")).status).toBe(200);
  });

  test("names the operators if no user has the address", async () => {
    const err = 'atherops-backend: no user has the address "admin@localhost"; operators: root@localhost\n';
    expect(await reset(["admin@localhost"], store.env)).toEqual({ code: 2, out: "", err });
  });
});

test("creates no accounts where there are none", async () => {
  using folder = temporaryFolder();
  const { code, err } = await reset([OPERATOR.email], { DATA_DIR: folder.path });
  expect([code, err]).toEqual([2, expect.stringContaining(`${folder.path} has no accounts.sqlite`)]);
  expect(existsSync(join(folder.path, "accounts.sqlite"))).toBe(false);
});
