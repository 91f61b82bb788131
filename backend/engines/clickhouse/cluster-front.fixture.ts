// Simulates a ClickHouse cluster for tests without a server: real Distributed tables over two shards within one embedded engine. Both
// shards have the same tables; a condition gives each shard one half of the rows. Replication and ON CLUSTER are removed from statements.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { type ClickHouse, openClickHouse } from "./clickhouse-client.ts";
import { startHttpFront } from "./http-front.fixture.ts";
import { prepare } from "./prepare.ts";

export const CLUSTER = "many";

const SHARD = "<shard><replica><host>127.0.0.1</host><port>9000</port></replica></shard>";
/** An address at which nothing listens. */
const AWAY = SHARD.replace("9000", "1");
const configOf = (shards: string): string =>
  `<clickhouse><tcp_port>9000</tcp_port><remote_servers><${CLUSTER}>${shards}</${CLUSTER}></remote_servers></clickhouse>`;

/** Rewrites a statement for an engine without Keeper. */
export function withoutKeeper(statement: string): string {
  return statement
    .replaceAll(`ON CLUSTER \`${CLUSTER}\``, "")
    .replaceAll(/Replicated((?:Replacing)?MergeTree)/g, "$1")
    .replaceAll(
      "replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 1200",
      "non_replicated_deduplication_window = 10000",
    );
}

/**
 * Each shard has the rows with one parity of this expression. Other tables are split by service, so a parent and its child may be on
 * different shards.
 */
const HALF_BY: Readonly<Record<string, string>> = {
  logs: "intDiv(toUnixTimestamp(time), 60)",
  service_edges: "cityHash64(client)",
  exemplars: "cityHash64(name)",
};

/** Distributes each row to one of the shards. */
function halved(statement: string): string {
  return statement.replaceAll(/'default\.(\w+)': 'org_id = ((?:[^'\\]|\\.)*?)'(?=[,}])/g, (_, table: string, orgId: string) => {
    const half = HALF_BY[table] ?? "cityHash64(service)";
    return `'default.${table}': 'org_id = ${orgId} AND ${half} % 2 = shardNum() - 1'`;
  });
}

export interface TwoShards extends AsyncDisposable {
  /** A client that reads Distributed tables. */
  readonly cluster: ClickHouse;
  /** Its CLICKHOUSE_URL. */
  readonly url: string;
  /** The same rows on a single server. */
  readonly server: ClickHouse;
  /** Every statement but inserts of data, as the backend sent it. */
  readonly statements: string[];
}

/** `withThird`: the cluster lists a third shard, which is unreachable. */
export async function openTwoShards({ withThird = false, partialAnswers = false } = {}): Promise<TwoShards> {
  const log = pino({ level: "silent" });
  await using stack = new AsyncDisposableStack();
  const dataDir = await mkdtemp(join(tmpdir(), "atherops-shards-"));
  stack.defer(() => rm(dataDir, { recursive: true, force: true }));
  const config = join(dataDir, "config.xml");
  await writeFile(config, configOf(`${SHARD}${SHARD}${withThird ? AWAY : ""}`));
  const statements: string[] = [];
  const rewrite = (statement: string): string[] => {
    statements.push(statement);
    return [halved(withoutKeeper(statement))];
  };
  const front = stack.use(await startHttpFront(join(dataDir, "engine"), { connectionArgs: [`--config-file=${config}`], rewrite }));
  const server = stack.use(await openClickHouse({ url: front.url, dataDir, log }));
  const url = `${front.url},${front.url}`;
  const cluster = stack.use(await openClickHouse({ url, cluster: CLUSTER, dataDir, partialAnswers, log }));
  await prepare(cluster, log);
  const opened = stack.move();
  return { cluster, url, server, statements, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
