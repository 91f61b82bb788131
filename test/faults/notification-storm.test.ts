// A storm of alerts for many tenants through whole backends, with the real evaluator and metrics engine, while they are killed.
// NOTIFICATION_TENANTS and NOTIFICATION_KILLS set the size.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { authority } from "../../agent/upstream/outgoing-proxy.fixture.ts";
import { adminPassword, type BackendPlace, backendPlace, flushSamples, login, startBackend } from "../fixtures/backend-process.ts";
import { type DistributedEngines, FIRST_PASSWORD, startDistributedEngines } from "../fixtures/distributed.ts";
import { NO_POSTGRES, postgresBinaries } from "../fixtures/postgres.ts";
import { eventually, freeAddresses, temporaryFolder, type TestProcess } from "../fixtures/processes.ts";
import {
  areSeriesThere,
  changesOf,
  deliveriesOf,
  EACH_CHANGE_ONCE,
  StormSenders,
  stormTenants,
  notifiedTenants,
} from "../fixtures/storm.ts";
import { ALERTS_PASSWORD, RULES_PASSWORD, startVmalert } from "../fixtures/vmalert-outside.ts";
import { type Hook, WebhookReceiver } from "../fixtures/webhook-receiver.ts";

const TENANTS = Number(process.env["NOTIFICATION_TENANTS"] ?? 6);
const KILLS = Number(process.env["NOTIFICATION_KILLS"] ?? 2);
const WITHIN_MS = 280_000 + KILLS * 40_000;

const folder = temporaryFolder();
const trusted = authority(folder.path, "trusted");
const settings = { EVALUATION_INTERVAL: "2s", NOTIFY_ALLOWED_NETWORKS: "127.0.0.1", NOTIFY_CA_FILE: trusted.caFile, JWT_TTL: "2h" };
afterAll(() => folder[Symbol.dispose]());

const idsOf = (received: readonly Hook[]): Set<string> => new Set(received.map(({ id }) => id));

test(
  `sends each change once, under one id, if a backend is killed ${KILLS} times while alerts of ${TENANTS} tenants start and end`,
  async () => {
    // Spread over both halves of the story; the message at which it is killed is not answered.
    const killAt = new Set(Array.from({ length: KILLS }, (_, kill) => 1 + Math.floor(((kill + 0.5) * 2 * TENANTS) / KILLS)));
    let kills = 0;
    const place = await backendPlace(folder.path, settings);
    let running: Promise<TestProcess>;
    let current: TestProcess;
    const anew = async (former: TestProcess): Promise<TestProcess> => {
      await former.exited;
      current = await startBackend(place);
      return current;
    };
    await using receiver = await WebhookReceiver.start(trusted, (response) => {
      if (killAt.delete(idsOf(receiver.received).size)) {
        kills += 1;
        current.child.kill("SIGKILL");
        running = running.then(anew);
        response.destroy();
      } else response.end();
    });
    current = await startBackend(place);
    running = Promise.resolve(current);
    await using _ended = { [Symbol.asyncDispose]: async () => void (await (await running).end()) };
    const operator = await login(place.apiUrl, "admin@localhost", adminPassword(place));
    const tenants = await stormTenants(place.apiUrl, operator, TENANTS, (path) => receiver.url(path));
    await using senders = new StormSenders([place.apiUrl], tenants);
    await eventually("all series are there", () => areSeriesThere(place.apiUrl, tenants, () => flushSamples(place)), WITHIN_MS);
    senders.isOpen = true;
    await eventually("all are notified that it fires", async () => notifiedTenants(receiver.received, "firing") === TENANTS, WITHIN_MS);
    senders.isOpen = false;
    await eventually("all are notified that it is over", async () => notifiedTenants(receiver.received, "resolved") === TENANTS, WITHIN_MS);
    await running;
    await eventually(
      "nothing waits any more",
      async () => (await deliveriesOf(place.apiUrl, tenants))["delivered"] === 2 * TENANTS,
      WITHIN_MS,
    );
    const { received } = receiver;
    console.log(`${kills} kills, ${received.length} messages came, ${idsOf(received).size} different ones, ${2 * TENANTS} changes`);
    expect(kills).toBe(KILLS);
    expect(changesOf(received, tenants)).toEqual(tenants.flatMap(() => EACH_CHANGE_ONCE));
    expect(await deliveriesOf(place.apiUrl, tenants)).toEqual({ delivered: 2 * TENANTS });
  },
  2 * WITHIN_MS,
);

describe.skipIf(!postgresBinaries)(`two replicas and an external vmalert${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  let engines: DistributedEngines;
  beforeAll(async () => {
    engines = await startDistributedEngines();
  });
  afterAll(async () => await engines?.[Symbol.asyncDispose]());

  async function replica(name: string, rules: string, evaluator: string): Promise<BackendPlace> {
    return await engines.place(name, {
      ...settings,
      RULES_LISTEN: rules,
      RULES_PASSWORD,
      ALERTS_PASSWORD,
      EVALUATOR_QUERY_URL: `http://${evaluator}`,
    });
  }

  test(
    "receive every alert twice and send it once; messages that a killed one started are sent by the other under the same id",
    async () => {
      const [rulesOfOne = "", rulesOfOther = "", evaluator = ""] = await freeAddresses(3);
      const places = [await replica("one", rulesOfOne, evaluator), await replica("other", rulesOfOther, evaluator)] as const;
      const [one, other] = places;
      await using first = await startBackend(one);
      await using _second = await startBackend(other);
      const notifiers = [rulesOfOne, rulesOfOther];
      await using _vmalert = await startVmalert({ rules: rulesOfOther, listen: evaluator, metricsUrl: engines.metricsUrl, notifiers });
      // Half of the notifications of the second half of the story are under way, by both, when one of them is killed.
      const unanswered: { destroy(): void }[] = [];
      const hold = Math.ceil(TENANTS / 2);
      await using receiver = await WebhookReceiver.start(trusted, (response, { body }) => {
        if (body.status === "firing" || unanswered.length >= hold) response.end();
        else if (unanswered.push(response) === hold) {
          first.child.kill("SIGKILL");
          first.child.once("exit", () => {
            for (const held of unanswered) held.destroy();
          });
        }
      });
      const operator = await login(one.apiUrl, "admin@localhost", FIRST_PASSWORD);
      const tenants = await stormTenants(other.apiUrl, operator, TENANTS, (path) => receiver.url(path));
      await using senders = new StormSenders([other.apiUrl], tenants);
      await eventually("all series are there", () => areSeriesThere(other.apiUrl, tenants, () => engines.flushSamples()), WITHIN_MS);
      senders.isOpen = true;
      await eventually("all are notified that it fires", async () => notifiedTenants(receiver.received, "firing") === TENANTS, WITHIN_MS);
      const delivered = async (count: number) => (await deliveriesOf(other.apiUrl, tenants))["delivered"] === count;
      await eventually("all of it is delivered", async () => await delivered(TENANTS), WITHIN_MS);
      expect(receiver.received).toHaveLength(TENANTS);
      senders.isOpen = false;
      await eventually("all is sent and delivered", async () => await delivered(2 * TENANTS), WITHIN_MS);
      expect(first.ended).toBe(true);
      const { received } = receiver;
      console.log(`a replica killed: ${received.length} messages came, ${idsOf(received).size} different ones, ${2 * TENANTS} changes`);
      expect(changesOf(received, tenants)).toEqual(tenants.flatMap(() => EACH_CHANGE_ONCE));
      expect(received.length).toBeGreaterThanOrEqual(2 * TENANTS + hold);
    },
    2 * WITHIN_MS,
  );
});
