import { execFile } from "node:child_process";
import { once } from "node:events";
import type { RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { ask, createServer } from "./http.ts";

const ROOT = join(import.meta.dirname, "..");

test.each(["backend/serve.ts", "backend/ingest/otlp/otlp-decoder-worker.ts", "agent/commands/run.ts", "agent/proxy/server.ts"])(
  "%s and its imports do not load Node's own copy of undici: 14 MB and 40 ms of each process",
  async (file) => {
    const program = `await import(${JSON.stringify(join(ROOT, file))}); console.log(JSON.stringify(process.moduleLoadList)); process.exit(0);`;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program], { cwd: ROOT });
    const loaded = JSON.parse(stdout) as string[];
    expect(loaded.length).toBeGreaterThan(50);
    expect(loaded.filter((name) => name.includes("undici"))).toEqual([]);
  },
);

async function answering(listener: RequestListener): Promise<{ url: string } & Disposable> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.dispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

test("ask returns the status and the whole text, and sends the given headers", async () => {
  using server = await answering((request, response) => response.writeHead(503).end(`${request.headers.authorization}, ${request.url}`));
  const signal = AbortSignal.timeout(5000);
  expect(await ask(`${server.url}/x?y=1`, { signal, headers: { authorization: "me" } })).toEqual({
    status: 503,
    ok: false,
    text: "me, /x?y=1",
  });
});

test("ask rejects if no process listens, if the response is truncated, and with the signal's reason on a timeout", async () => {
  const never = new AbortController().signal;
  const { url } = await answering(() => undefined).then((server) => {
    using closed = server;
    return { url: closed.url };
  });
  await expect(ask(url, { signal: never })).rejects.toThrow(/ECONNREFUSED/);
  using half = await answering((_, response) => response.writeHead(200, { "content-length": 10 }).write("half", () => response.destroy()));
  await expect(ask(half.url, { signal: never })).rejects.toThrow(/aborted|hang up|ECONNRESET/);
  using silent = await answering((_, response) => response.writeHead(200).flushHeaders());
  const aborted = new AbortController();
  const asked = ask(silent.url, { signal: aborted.signal });
  aborted.abort(new Error("too late"));
  await expect(asked).rejects.toThrow("too late");
  await expect(ask(silent.url, { signal: aborted.signal })).rejects.toThrow("too late");
});
