import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { Worker } from "node:worker_threads";
import { afterEach, describe, expect, it } from "vitest";
import { addListeners, probePortSharing, type AdditionalListeners } from "./listeners.ts";

const HOST = "127.0.0.1";
const AT = { host: HOST, port: 0, backlog: 512 };
const CONNECTIONS = 64;
/** Opens connections, and counts in `connected` how many the kernel has accepted. */
const CLIENTS = `
  const { workerData: { port, connected } } = require("node:worker_threads");
  const count = new Int32Array(connected);
  for (let at = 0; at < ${CONNECTIONS}; at += 1)
    require("node:net").connect(port, "${HOST}", () => { Atomics.add(count, 0, 1); Atomics.notify(count, 0); }).on("error", () => undefined);`;

let server: Server;
let more: AdditionalListeners | undefined;

afterEach(() => {
  server.close();
  server.closeAllConnections();
  void more?.close();
});

async function listen(listener?: Parameters<typeof createServer>[1]): Promise<number> {
  server = createServer(listener);
  server.listen({ ...AT, ...(await probePortSharing(AT)) });
  await once(server, "listening");
  more = await addListeners(server, AT);
  return (server.address() as AddressInfo).port;
}

describe("listeners", () => {
  it("accept many connections in one iteration of the event loop", async () => {
    const port = await listen();
    const connected = new SharedArrayBuffer(4);
    const clients = new Worker(CLIENTS, { eval: true, workerData: { port, connected } });
    const count = new Int32Array(connected);
    // The event loop of this thread starts the worker.
    await once(clients, "online");
    // The event loop is blocked until all connections wait.
    for (let there = 0; there < CONNECTIONS; there = Atomics.load(count, 0)) Atomics.wait(count, 0, there);
    const all = Promise.withResolvers<void>();
    let [accepted, iterations] = [0, 0];
    server.on("connection", () => ++accepted === CONNECTIONS && all.resolve());
    const iterate = (): void => void setImmediate(() => ((iterations += 1), accepted < CONNECTIONS && iterate()));
    iterate();
    await all.promise;
    await clients.terminate();
    expect(iterations).toBeLessThan(CONNECTIONS / 2);
  });

  it("finish running requests on close, even if the client keeps the connection alive", async () => {
    const asked = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    let running = 0;
    const port = await listen(async (_request, response) => {
      running += 1;
      if (running === 20) asked.resolve();
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

  it("refuse a port that another process uses, even if it shares the port", async () => {
    const port = await listen();
    await expect(probePortSharing({ ...AT, port })).rejects.toThrow("EADDRINUSE");
    const other = createTcpServer().listen(0, HOST);
    await once(other, "listening");
    await expect(probePortSharing({ ...AT, port: (other.address() as AddressInfo).port })).rejects.toThrow("EADDRINUSE");
    other.close();
  });
});
