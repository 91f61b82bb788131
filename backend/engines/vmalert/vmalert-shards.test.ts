// Which vmalert gets which request if the groups are divided between several.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { VmalertClient } from "./vmalert-client.ts";
import { isInShard, ShardedEvaluator } from "./vmalert-shards.ts";

const COUNT = 3;
const groupOf = (index: number): string =>
  Array.from({ length: 100 }, (_, n) => `group-${n}`).find((name) => isInShard(name, { index, count: COUNT })) ?? "";

test("announces a change to the vmalert that has the group, and to no other", async () => {
  const asked: string[] = [];
  await using stack = new AsyncDisposableStack();
  const clients: VmalertClient[] = [];
  for (let index = 0; index < COUNT; index += 1) {
    const server = createServer((request, response) => {
      asked.push(`${index} ${request.url}`);
      response.end(index === 2 ? "vmalert_config_last_reload_successful 0\n" : "vmalert_config_last_reload_successful 1\n");
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    stack.defer(() => void server.close());
    clients.push(new VmalertClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
  }
  const evaluator = stack.use(new ShardedEvaluator(clients));
  await evaluator.reload([groupOf(1)]);
  expect(asked).toEqual(["1 /-/reload"]);
  expect(await evaluator.refusedLastReload([groupOf(0), groupOf(1)])).toBe(false);
  expect(await evaluator.refusedLastReload([groupOf(2)])).toBe(true);
  expect(asked.toSorted()).toEqual(["0 /metrics", "1 /-/reload", "1 /metrics", "2 /metrics"]);
});
