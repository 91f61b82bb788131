// The agents of a fleet are never all upgraded at once, so the backend accepts agents of other versions: heartbeats of earlier versions,
// and one with fields that no version sends yet.
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  accountsApp,
  type AccountsApp,
  listedCluster,
  makeOrg,
  type Org,
  registerCluster,
  tryKey,
} from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";

const COLLECTOR = { state: "running", restarts: 0 };
/** Heartbeats of cluster agents, as `agent/commands/running-parts.ts` sent them at these commits. */
const VERSIONS: readonly (readonly [string, object])[] = [
  ["without fields in its heartbeat", {}],
  ["at 4847244", { node: "n", agent_version: "0.1.0", interval_s: 30, installation: "a/b", collector: COLLECTOR }],
  [
    "at 0183f4a",
    { node: "n", agent_version: "0.1.0", interval_s: 30, installation: "a/b", collector: COLLECTOR, config: { version: "0" } },
  ],
  [
    "now",
    {
      node: "n",
      agent_version: "0.1.0",
      interval_s: 30,
      installation: "a/b",
      collector: { ...COLLECTOR, queue_percent: 3, failing: [] },
      config: { version: "0" },
    },
  ],
  ["of a version to come", { node: "n", agent_version: "9.0.0", collector: { ...COLLECTOR, cores: [1] }, capabilities: { a: true } }],
];

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let org: Org;
  beforeAll(async () => {
    backend = await accountsApp(store.database, { env: { JWT_TTL: "30d" } });
    org = await makeOrg(backend);
  });
  afterAll(async () => await backend?.[Symbol.asyncDispose]());

  test.each(VERSIONS)("an agent %s registers, is online, sends and reads its configuration", async (_, body) => {
    const { cluster_id: id, api_key: key } = await registerCluster(backend, org.token);
    expect((await backend.call("POST", "/heartbeat", { key, body })).statusCode).toBe(204);
    expect(await listedCluster(backend, org, id)).toMatchObject({ online: true });
    expect(await tryKey(backend, key)).toBe(204);
    const config = await backend.call("GET", `/api/clusters/${id}/config?node=n`, { key });
    expect(config.json()).toEqual({ version: "0", config: {} });
  });
});
