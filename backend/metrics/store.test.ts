import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { VictoriaMetricsStore } from "./store.ts";

const IDENTITY = { orgId: "acme", hostId: "host", node: "node" };

interface Seen {
  readonly url: string;
  readonly authorization: string | undefined;
  readonly body: string;
}

/** A VictoriaMetrics cluster's URLs as an operator writes them, answered by `respond`. */
async function clusterAnswering(respond: (response: ServerResponse, request: IncomingMessage) => void) {
  const seen: Seen[] = [];
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    seen.push({ url: request.url ?? "", authorization: request.headers.authorization, body: await text(request) });
    respond(response, request);
  };
  const server = createServer((request, response) => void take(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const host = `reader:s%40cret@127.0.0.1:${(server.address() as AddressInfo).port}`;
  const store = new VictoriaMetricsStore({
    writeUrl: `http://${host}/insert/0/prometheus/`,
    queryUrl: `http://${host}/select/0/prometheus`,
  });
  return {
    seen,
    store,
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      server.closeAllConnections();
      server.close();
    },
  };
}

const end =
  (status: number, body = "") =>
  (response: ServerResponse) =>
    void response.writeHead(status).end(body);

test("a cluster's base paths and the user in the URL are used; the scope is a parameter of every call", async () => {
  await using cluster = await clusterAnswering(
    (response) => void response.writeHead(200, { "content-type": "application/json" }).end("{}"),
  );
  await cluster.store.write(IDENTITY, Buffer.from("up 1\n"), 1_700_000_000_000);
  const params = new URLSearchParams([
    ["match[]", "up"],
    ["extra_label", "org_id=other"],
    ["extra_filters[]", "{}"],
  ]);
  await cluster.store.query("acme", "label_values", params, { label: "a/b c" });
  await cluster.store.check();
  const authorization = `Basic ${Buffer.from("reader:s@cret").toString("base64")}`;
  const scope = "extra_label=org_id%3Dacme";
  expect(cluster.seen.slice(0, 2)).toEqual([
    {
      url: `/insert/0/prometheus/api/v1/import/prometheus?timestamp=1700000000000&${scope}&extra_label=host_id%3Dhost&extra_label=node%3Dnode`,
      authorization,
      body: "up 1\n",
    },
    { url: "/select/0/prometheus/api/v1/label/a%2Fb%20c/values", authorization, body: `match%5B%5D=up&${scope}` },
  ]);
  expect(cluster.seen.slice(2).map(({ url }) => url)).toEqual(["/health", "/health"]);
});

test.each([
  [400, "unstorable"],
  [429, "storage_unavailable"],
  [503, "storage_unavailable"],
  [500, "storage_unavailable"],
  [307, "storage_unavailable"],
])("a write answered %i is %s", async (status, code) => {
  await using cluster = await clusterAnswering(end(status, "the engine's reason"));
  const write = cluster.store.write(IDENTITY, Buffer.from("up 1\n"), 1);
  await expect(write).rejects.toMatchObject({ code, message: expect.not.stringContaining("engine's reason"), cause: expect.any(Error) });
});

test("a query's 4xx is an answer, everything else above 2xx is not", async () => {
  for (const status of [400, 422]) {
    await using cluster = await clusterAnswering(end(status, '{"status":"error"}'));
    await expect(cluster.store.query("acme", "query", new URLSearchParams())).resolves.toMatchObject({ status });
  }
  for (const status of [302, 429, 500, 503]) {
    await using cluster = await clusterAnswering(end(status));
    await expect(cluster.store.query("acme", "query", new URLSearchParams())).rejects.toMatchObject({
      code: "storage_unavailable",
      retryAfterS: 2,
    });
  }
});

test("a connection that the engine closes in the moment of use is tried once more, and only once", async () => {
  let calls = 0;
  await using cluster = await clusterAnswering((response) => {
    calls += 1;
    if (calls % 2 === 1 || calls > 4) response.socket?.destroy();
    else response.writeHead(204).end();
  });
  await cluster.store.write(IDENTITY, Buffer.from("up 1\n"), 1);
  await cluster.store.write(IDENTITY, Buffer.from("up 1\n"), 1);
  await expect(cluster.store.write(IDENTITY, Buffer.from("up 1\n"), 1)).rejects.toMatchObject({ code: "storage_unavailable" });
  expect(calls).toBe(6);
});

test("an answer above 64 MiB is refused instead of being held", async () => {
  await using cluster = await clusterAnswering((response) => {
    response.writeHead(200);
    for (let sent = 0; sent < 65; sent += 1) response.write(Buffer.alloc(1024 * 1024));
    response.end();
  });
  await expect(cluster.store.query("acme", "query", new URLSearchParams())).rejects.toMatchObject({
    code: "invalid_parameter",
    message: expect.stringContaining("64 MiB"),
  });
});

test("a query without a tenant is a fault of ours and reaches nobody", async () => {
  await using cluster = await clusterAnswering(end(200));
  await expect(cluster.store.query("", "query", new URLSearchParams())).rejects.toThrow("without a tenant");
  expect(cluster.seen).toEqual([]);
});
