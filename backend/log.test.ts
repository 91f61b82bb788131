import { expect, test } from "vitest";
import { ApiError } from "./errors.ts";
import { createLog } from "./log.ts";
import { createApp } from "./http/app.ts";

function lines() {
  const written: string[] = [];
  const log = createLog("info", "test", { write: (line) => void written.push(line) });
  return { log, written };
}

test("never logs values of a failed statement, whatever contains its error", async () => {
  const { log, written } = lines();
  const secret = "$argon2id$v=19$m=19456,t=2,p=1$c2VjcmV0$aGFzaA";
  // Database drivers may attach the statement and its values to the error. PostgreSQL's puts a row's values into `detail`.
  const error = Object.assign(new Error('relation "no_such_table" does not exist'), {
    code: "42P01",
    query: "SELECT $1 FROM no_such_table",
    params: [secret],
    detail: `Key (password)=(${secret})`,
    where: `portal with parameter $1 = '${secret}'`,
  });
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
});

test("logs an error that is its own cause, and a thrown value that is no error", () => {
  const { log, written } = lines();
  const error = new Error("round and round");
  error.cause = error;
  log.error({ err: error }, "x");
  log.error({ err: { password: "hunter2" } }, "y");
  log.error({ err: "text" }, "z");
  expect(written).toHaveLength(3);
  expect(written.join("")).not.toContain("hunter2");
});
