// A storm of alerts for many tenants, while the process that sends their messages is killed repeatedly; and two replicas next to each
// other. NOTIFICATION_TENANTS and NOTIFICATION_KILLS set the size.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { Message } from "../../backend/notification/model/message.ts";
import { openDatabase } from "../../backend/engines/relational/database.ts";
import { migrate } from "../../backend/engines/relational/migrate.ts";
import { createLog } from "../../backend/operations/log.ts";
import { notifiedOrg, postedAlert, type NotifiedOrg, type Tables } from "../fixtures/notification.ts";
import { NO_POSTGRES, postgresBinaries, PostgresServer } from "../fixtures/postgres.ts";
import { eventually, freePorts, temporaryFolder, TestProcess } from "../fixtures/processes.ts";

const TENANTS = Number(process.env["NOTIFICATION_TENANTS"] ?? 10);
const KILLS = Number(process.env["NOTIFICATION_KILLS"] ?? 2);
const ALERTS_OF_TENANT = 10;
const WITHIN_MS = 280_000;
const log = createLog("silent");

interface Received {
  readonly id: string;
  readonly orgId: string;
  readonly status: string;
  readonly alerts: number;
}

/** Remembers every message. `before`: what happens before it is answered; false: it is not. */
async function startReceiver(before: (received: readonly Received[]) => boolean) {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const message = JSON.parse(Buffer.concat(await Array.fromAsync(request as AsyncIterable<Buffer>)).toString()) as Message;
      received.push({ id: message.id, orgId: message.org.id, status: message.status, alerts: message.alerts.length });
      if (before(received)) response.end();
      else response.destroy();
    })();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    received,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    [Symbol.dispose]: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function fill(where: { dataDir: string; url?: string }): Promise<NotifiedOrg[]> {
  await using database = await openDatabase({ ...where, log });
  await migrate(database);
  const orgs: NotifiedOrg[] = [];
  for (let tenant = 0; tenant < TENANTS; tenant += 1)
    orgs.push(await notifiedOrg(database.tables<Tables>(), { waitSeconds: 0, intervalSeconds: 0 }));
  return orgs;
}

/** Posts alerts like the evaluator: all of them, again and again, whatever the responses, until `isEnough`. */
async function sayUntil(ports: readonly number[], orgs: readonly NotifiedOrg[], endsInMs: number, isEnough: () => boolean): Promise<void> {
  const startsMs = Date.now() - 1000;
  const deadline = Date.now() + WITHIN_MS;
  for (let round = 0; !isEnough(); round += 1) {
    if (Date.now() > deadline) throw new Error("not all messages came in time");
    for (const [number, org] of orgs.entries()) {
      const alerts = Array.from({ length: ALERTS_OF_TENANT }, (_, host) => postedAlert(org, `h${host}`, startsMs, Date.now() + endsInMs));
      const port = ports[(number + round) % ports.length];
      // One that was just killed does not answer.
      await fetch(`http://127.0.0.1:${port}/api/v2/alerts`, {
        method: "POST",
        body: JSON.stringify(alerts),
        signal: AbortSignal.timeout(10_000),
      }).catch(() => undefined);
      if (isEnough()) return;
    }
    // Paces the evaluations that this sender simulates.
    await sleep(200);
  }
}

function tenantsWith(received: readonly Received[], status: string): number {
  return new Set(received.filter((one) => one.status === status).map(({ orgId }) => orgId)).size;
}

/** Both changes of each tenant: how many ids each has, and how many alerts. */
function changes(received: readonly Received[], orgs: readonly NotifiedOrg[]): string[] {
  return orgs.flatMap(({ orgId }) =>
    ["firing", "resolved"].map((status) => {
      const own = received.filter((one) => one.orgId === orgId && one.status === status);
      return `${status}: ${new Set(own.map(({ id }) => id)).size} id, ${[...new Set(own.map(({ alerts }) => alerts))].join()} alerts`;
    }),
  );
}

const EXPECTED = ["firing", "resolved"].map((status) => `${status}: 1 id, ${ALERTS_OF_TENANT} alerts`);

test(
  `killed ${KILLS} times while ${TENANTS} tenants' alerts begin and end: each change is sent, under one id, and none is lost`,
  async () => {
    using folder = temporaryFolder();
    const orgs = await fill({ dataDir: folder.path });
    const [port = 0] = await freePorts(1);
    // Spread over both halves of the story; the message at which it is killed is not answered.
    const killAt = new Set(Array.from({ length: KILLS }, (_, kill) => Math.floor(((kill + 0.5) * 2 * TENANTS) / KILLS)));
    let running: TestProcess | undefined;
    let kills = 0;
    using receiver = await startReceiver((received) => {
      const isKill = killAt.delete(new Set(received.map(({ id }) => id)).size);
      if (isKill) {
        kills += 1;
        running?.child.kill("SIGKILL");
      }
      return !isKill;
    });
    const env = { LISTEN: String(port), RECEIVER: receiver.url, DATA_DIR: folder.path };
    const over = new AbortController();
    const kept = (async () => {
      while (!over.signal.aborted) {
        await using started = new TestProcess(["test/fixtures/notification-process.ts"], env, `${folder.path}/out`);
        running = started;
        const ended = Promise.race([started.exited, once(over.signal, "abort")]);
        await ended;
      }
    })();
    try {
      await sayUntil([port], orgs, 240_000, () => tenantsWith(receiver.received, "firing") === TENANTS);
      await sayUntil([port], orgs, -1000, () => tenantsWith(receiver.received, "resolved") === TENANTS && kills >= KILLS);
    } finally {
      over.abort();
      await kept;
    }
    const ids = new Set(receiver.received.map(({ id }) => id)).size;
    console.log(`${kills} kills, ${receiver.received.length} messages came, ${ids} different ones, ${2 * TENANTS} changes`);
    expect(changes(receiver.received, orgs)).toEqual(orgs.flatMap(() => EXPECTED));
  },
  2 * WITHIN_MS,
);

describe.skipIf(!postgresBinaries)(`two replicas${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  test(
    "share the messages, and none is sent by both",
    async () => {
      using folder = temporaryFolder();
      await using server = await PostgresServer.start();
      const url = await server.newDatabase();
      const orgs = await fill({ dataDir: folder.path, url });
      using receiver = await startReceiver(() => true);
      const ports = await freePorts(2);
      const replicas = ports.map(
        (port) =>
          new TestProcess(
            ["test/fixtures/notification-process.ts"],
            { LISTEN: String(port), RECEIVER: receiver.url, DATABASE_URL: url },
            `${folder.path}/${port}`,
          ),
      );
      await using stack = new AsyncDisposableStack();
      for (const replica of replicas) stack.use(replica);
      for (const port of ports) await eventually("it listens", async () => (await fetch(`http://127.0.0.1:${port}`)).ok, WITHIN_MS);
      await sayUntil(ports, orgs, 240_000, () => tenantsWith(receiver.received, "firing") === TENANTS);
      await sayUntil(ports, orgs, -1000, () => tenantsWith(receiver.received, "resolved") === TENANTS);
      expect(changes(receiver.received, orgs)).toEqual(orgs.flatMap(() => EXPECTED));
      expect(receiver.received).toHaveLength(2 * TENANTS);
    },
    2 * WITHIN_MS,
  );
});
