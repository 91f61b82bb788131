// The stores on two shards with real Distributed tables: everything that they do on one server.
import { afterAll, beforeAll, describe } from "vitest";
import { describeStores, openStores, type Stores } from "../../../test/conformance/telemetry-stores.ts";
import { openTwoShards, type TwoShards } from "../../engines/clickhouse/cluster-front.fixture.ts";

describe("stores on two shards", () => {
  let shards: TwoShards;
  let stores: Stores;

  beforeAll(async () => {
    shards = await openTwoShards();
    stores = await openStores(shards.cluster);
  });
  afterAll(async () => {
    await stores?.[Symbol.asyncDispose]();
    await shards?.[Symbol.asyncDispose]();
  });

  // Statements of our own read each of the two shards, which are one table here.
  describeStores(() => ({ clickhouse: shards.server, stores }));
});
