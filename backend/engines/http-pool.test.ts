// This file must not load undici's index, which would hide what the few modules of http-pool.ts lack.
import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

test("a pool sends, receives and closes in a process that loads no other part of undici", async () => {
  const server = createServer((request, response) => {
    request.resume().on("end", () => response.setHeader("x-seen", "yes").end(`${request.method} ${request.url}`));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const program = `
    const { Pool } = await import(${JSON.stringify(join(import.meta.dirname, "http-pool.ts"))});
    const pool = new Pool("http://127.0.0.1:${port}", { connections: 2 });
    const one = async (method, body) => { const answer = await pool.request({ method, path: "/x", body }); return [answer.statusCode, answer.headers["x-seen"], await answer.body.text()]; };
    const answers = await Promise.all([one("GET"), one("POST", Buffer.alloc(100_000))]);
    await pool.close();
    const { createRequire } = await import("node:module");
    const loaded = Object.keys(createRequire(${JSON.stringify(import.meta.filename)}).cache).filter((file) => file.endsWith("undici/index.js"));
    console.log(JSON.stringify({ answers, loaded }));`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);
  server.close();
  expect(JSON.parse(stdout)).toEqual({
    answers: [
      [200, "yes", "GET /x"],
      [200, "yes", "POST /x"],
    ],
    loaded: [],
  });
});
