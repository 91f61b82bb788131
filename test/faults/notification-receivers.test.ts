// Receivers that fail, hang, or lead to internal addresses, through a whole backend with the real evaluator: what the organisation's log of
// deliveries reports of each, and that no forbidden address was contacted.
import { pathToFileURL } from "node:url";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { authority } from "../../agent/upstream/outgoing-proxy.fixture.ts";
import { nameServer } from "../../backend/outgoing/name-server.fixture.ts";
import type { Tenant } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { call, eventually, freePorts, ROOT, temporaryFolder } from "../fixtures/processes.ts";
import { type Answering, WebhookReceiver } from "../fixtures/webhook-receiver.ts";

/** Represents the internet: the only network that the operator allows. */
const OUTSIDE = "127.0.0.3";
const INSIDE = "127.0.0.1";
const METADATA = "169.254.169.254";

interface Delivery {
  readonly id: string;
  readonly status: string;
  readonly attempts: number;
  readonly http_status: number | null;
  readonly error: string | null;
}

const folder = temporaryFolder();
const trusted = authority(folder.path, "trusted", "*.backend.test");
/** Number of lookups of the name, which resolves to another address after the first one. */
let asked = 0;
const names = await nameServer((name) => {
  if (!name.endsWith(".backend.test")) return [];
  if (name !== "moving.backend.test") return [OUTSIDE];
  asked += 1;
  return [asked === 1 ? OUTSIDE : INSIDE];
});
const stack = new AsyncDisposableStack();
const backend = backendOfFile({
  EVALUATION_INTERVAL: "2s",
  NOTIFY_ALLOWED_NETWORKS: OUTSIDE,
  NOTIFY_CA_FILE: trusted.caFile,
  NODE_OPTIONS: `--import=${pathToFileURL(join(ROOT, "test/fixtures/name-server-preload.ts")).href}`,
  TEST_NAME_SERVER: names.address,
});
let red: Tenant;

beforeAll(async () => {
  red = await backend.tenant("red");
});
afterAll(async () => {
  await stack.disposeAsync();
  await names[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

const ask = async (method: string, path: string, body?: object) =>
  await call(method, `${backend.apiUrl}/alerting${path}`, { bearer: red.token, body });
async function receiver(answer: Answering, address = OUTSIDE, port = 0): Promise<WebhookReceiver> {
  return stack.use(await WebhookReceiver.start(trusted, answer, address, port));
}
async function channel(name: string, port: number): Promise<string> {
  const url = `https://${name}.backend.test:${port}/hook`;
  const made = await ask("POST", "/channels", { name, kind: "webhook", settings: { url } });
  expect([made.status, made.json.message]).toEqual([201, undefined]);
  return made.json.id as string;
}

/** Undefined if this machine does not have the address, which is usual. */
async function metadataService(): Promise<WebhookReceiver | undefined> {
  try {
    return await receiver((response) => response.end(), METADATA);
  } catch {
    console.log(`nothing can listen on ${METADATA} here: that it is not asked is seen by the receiver's redirect alone`);
    return undefined;
  }
}

test("reports each receiver's failure with a message, retries where that may help, and never reaches an internal address", async () => {
  const [port = 0] = await freePorts(1);
  const inside = await receiver((response) => response.end(), INSIDE, port);
  const metadata = await metadataService();
  const works = await receiver((response) => response.end());
  const fails = await receiver((response) => response.writeHead(500).end("a stack trace of theirs"));
  const hangs = await receiver(() => undefined);
  const moves = await receiver((response) => response.end(), OUTSIDE, port);
  const leading = async (location: string) => await receiver((response) => response.writeHead(307, { location }).end());
  const toMetadata = await leading(`https://${METADATA}:${metadata?.port ?? 443}/latest/meta-data/`);
  const toInside = await leading(`https://${INSIDE}:${port}/`);

  const ids = {
    works: await channel("works", works.port),
    fails: await channel("fails", fails.port),
    hangs: await channel("hangs", hangs.port),
    "to-metadata": await channel("to-metadata", toMetadata.port),
    "to-inside": await channel("to-inside", toInside.port),
    moving: await channel("moving", port),
  };
  // At its first question the name leads outside: the channel is good.
  expect((await ask("POST", `/channels/${ids.moving}/test`)).json).toEqual({ delivered: true, status: 200, error: null });
  await ask("POST", "/routes", { matchers: [], channel_ids: Object.values(ids), group_wait: "0s" });
  await ask("POST", "/rules", { name: "Down", severity: "critical", expr: "absent(no_such_metric)" });

  const of = async (name: keyof typeof ids): Promise<Delivery | undefined> =>
    ((await ask("GET", `/deliveries?channel_id=${ids[name]}`)).json as Delivery[])[0];
  const delivery = async (name: keyof typeof ids, least: number): Promise<unknown[]> => {
    const row = await eventually(`${name}: ${least} attempts`, async () => {
      const found = await of(name);
      return found && found.attempts >= least && (found.error !== null || found.status === "delivered") && found;
    });
    return [row.status, row.http_status, row.error];
  };
  expect(await delivery("works", 1)).toEqual(["delivered", 200, null]);
  expect(await delivery("to-metadata", 1)).toEqual(["failed", 307, "the receiver responded with status 307: redirects are not followed"]);
  expect(await delivery("to-inside", 1)).toEqual(["failed", 307, "the receiver responded with status 307: redirects are not followed"]);
  expect(await delivery("moving", 1)).toEqual(["pending", null, "the host does not exist, or has no address that requests may be sent to"]);
  expect(await delivery("fails", 2)).toEqual(["pending", 500, "the receiver responded with status 500"]);
  expect(await delivery("hangs", 1)).toEqual(["pending", null, "no response in time"]);

  // Once more each, under the same id.
  const again = await eventually("asked twice", async () => {
    const all = fails.received.map(({ id }) => id);
    return Promise.resolve(all.length >= 2 && all);
  });
  expect(new Set(again)).toEqual(new Set([(await of("fails"))?.id]));
  expect([toMetadata.received.length, toInside.received.length, moves.received.length]).toEqual([1, 1, 1]);
  expect([inside.connections, metadata?.connections ?? 0]).toEqual([0, 0]);
  const log = backend.log.split("\n").filter((line) => line.includes("refused to connect to an address outside"));
  expect(log.length).toBeGreaterThan(0);
  expect(JSON.parse(log[0] ?? "")).toMatchObject({ host: "moving.backend.test", found: [INSIDE] });
});
