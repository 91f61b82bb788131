import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { Worker } from "node:worker_threads";
import { afterEach, describe, expect, it } from "vitest";
import { listenMore, sharing, type MoreListeners } from "./listeners.ts";

const HOST = "127.0.0.1";
const AT = { host: HOST, port: 0, backlog: 512 };
const CONNECTIONS = 64;
/** Opens connections, and says in `connected` how many the kernel has taken. */
const STRANGERS = `
  const { workerData: { port, connected } } = require("node:worker_threads");
  const count = new Int32Array(connected);
  for (let at = 0; at < ${CONNECTIONS}; at += 1)
    require("node:net").connect(port, "${HOST}", () => { Atomics.add(count, 0, 1); Atomics.notify(count, 0); }).on("error", () => undefined);`;

let server: Server;
let more: MoreListeners | undefined;

afterEach(() => {
  server.close();
  server.closeAllConnections();
  void more?.close();
});

async function listen(listener?: Parameters<typeof createServer>[1]): Promise<number> {
  server = createServer(listener);
  server.listen({ ...AT, ...(await sharing(AT)) });
  await once(server, "listening");
  more = await listenMore(server, AT);
  return (server.address() as AddressInfo).port;
}

describe("listeners", () => {
  it("take many connections in a turn of the event loop, not one", async () => {
    const port = await listen();
    const connected = new SharedArrayBuffer(4);
    const strangers = new Worker(STRANGERS, { eval: true, workerData: { port, connected } });
    const count = new Int32Array(connected);
    // The thread of the worker is started by a turn of this one's loop.
    await once(strangers, "online");
    // Nothing is taken before all of them wait.
    for (let there = 0; there < CONNECTIONS; there = Atomics.load(count, 0)) Atomics.wait(count, 0, there);
    const all = Promise.withResolvers<void>();
    let [taken, turns] = [0, 0];
    server.on("connection", () => ++taken === CONNECTIONS && all.resolve());
    const turn = (): void => void setImmediate(() => ((turns += 1), taken < CONNECTIONS && turn()));
    turn();
    await all.promise;
    await strangers.terminate();
    expect(turns).toBeLessThan(CONNECTIONS / 2);
  });

  it("answer what was asked, and close when that is done, whether or not its client keeps the connection", async () => {
    const asked = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    let underWay = 0;
    const port = await listen(async (_request, response) => {
      underWay += 1;
      if (underWay === 20) asked.resolve();
      await go.promise;
      response.end("answered");
    });
    const answers = Array.from({ length: 20 }, async () => {
      const call = request({ port, host: HOST, agent: false, headers: { connection: "keep-alive" } }).end();
      const [answer] = await once(call, "response");
      return String(await once(answer, "data"));
    });
    await asked.promise;
    const ended = more?.close();
    server.close();
    go.resolve();
    expect(new Set(await Promise.all(answers))).toEqual(new Set(["answered"]));
    await ended;
  });

  it("are refused a port that another process has, also one that shares it", async () => {
    const port = await listen();
    await expect(sharing({ ...AT, port })).rejects.toThrow("EADDRINUSE");
    const other = createTcpServer().listen(0, HOST);
    await once(other, "listening");
    await expect(sharing({ ...AT, port: (other.address() as AddressInfo).port })).rejects.toThrow("EADDRINUSE");
    other.close();
  });
});
