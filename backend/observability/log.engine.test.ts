import { sql } from "kysely";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { openPglite } from "../engines/relational/database.ts";
import { ApiError } from "../errors.ts";
import { createLog } from "./log.ts";
import { createApp } from "../http/app.ts";

function lines() {
  const written: string[] = [];
  const log = createLog("info", "test", { write: (line) => void written.push(line) });
  return { log, written };
}

test("values of a failed statement are not logged, whichever way its error gets there", async () => {
  using folder = temporaryFolder();
  const { log, written } = lines();
  const database = await openPglite(folder.path);
  const secret = "$argon2id$v=19$m=19456,t=2,p=1$c2VjcmV0$aGFzaA";
  const error = await sql`SELECT ${secret} FROM no_such_table`.execute(database.tables()).catch((failure: unknown) => failure);
  // PGlite hangs the statement and its values on the error.
  expect(JSON.stringify(error)).toContain(secret);
  const app = await createApp({ log });
  app.get("/broken", async () => await Promise.reject(error));
  app.get("/away", async () => await Promise.reject(new ApiError("storage_unavailable", "away", { cause: error })));
  for (const path of ["/broken", "/away"]) expect((await app.inject(path)).statusCode).toBeGreaterThanOrEqual(500);
  log.error(error, "bare");
  log.warn({ err: new Error("outer", { cause: error }), error, cause: error }, "wrapped");
  log.warn({ err: new AggregateError([error], "several") }, "several");
  const all = written.join("");
  expect(all).not.toContain("argon2id");
  expect(all).toContain("no_such_table");
  expect(JSON.parse(written[0] ?? "{}").err).toMatchObject({ message: expect.stringContaining("no_such_table"), code: "42P01" });
  expect(JSON.parse(written[0] ?? "{}").err.stack).toMatch(/\n +at /);
  await app.close();
  await database[Symbol.asyncDispose]();
});

test("an error that is its own cause, and a thrown thing that is none, are logged", () => {
  const { log, written } = lines();
  const error = new Error("round and round");
  error.cause = error;
  log.error({ err: error }, "x");
  log.error({ err: { password: "hunter2" } }, "y");
  log.error({ err: "text" }, "z");
  expect(written).toHaveLength(3);
  expect(written.join("")).not.toContain("hunter2");
});
