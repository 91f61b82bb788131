import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, describe } from "vitest";
import { type ClickHouse, openClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { applyRetention, migrate } from "../../engines/clickhouse/migrate.ts";
import { describeStores, openStores, type Stores } from "../../../test/conformance/telemetry-stores.ts";

describe("stores on the embedded engine", () => {
  let dir: string;
  let clickhouse: ClickHouse;
  let stores: Stores;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "atherops-store-"));
    const log = pino({ level: "silent" });
    clickhouse = await openClickHouse({ dataDir: dir, log });
    await migrate(clickhouse, log);
    await applyRetention(clickhouse, { logs: 30, spans: 30 }, log);
    stores = await openStores(clickhouse);
  });

  afterAll(async () => {
    await stores[Symbol.asyncDispose]();
    await clickhouse[Symbol.asyncDispose]();
    await rm(dir, { recursive: true, force: true });
  });

  describeStores(() => ({ clickhouse, stores }));
});
