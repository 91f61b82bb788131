import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestEngine, type TestEngine } from "../../../test/fixtures/metrics-engine.ts";
import type { SigningKey } from "../../http/request-identity.ts";
import { ActiveSeries } from "../../storage/metrics/active-series.ts";
import { createExpositionIngest } from "./exposition-ingest.ts";
import { VictoriaMetricsStore } from "../../storage/metrics/metric-store.ts";
import { stub } from "../../../test/fixtures/stub.ts";

let engine: TestEngine;
let store: VictoriaMetricsStore;
beforeAll(async () => {
  engine = await startTestEngine();
  store = new VictoriaMetricsStore(engine);
});
afterAll(async () => {
  await store[Symbol.asyncDispose]();
  await engine[Symbol.asyncDispose]();
});

function keyOf(orgId: string, more: Partial<SigningKey> = {}): SigningKey {
  return { keyId: "k", kind: "cluster", orgId, hostId: `host-of-${orgId}`, node: `node-of-${orgId}`, createdAt: new Date(), ...more };
}

const KEPT = { retentionMs: () => 30 * 86_400_000 };
const ingest = (orgId: string, text: string, receivedAt = new Date()) =>
  createExpositionIngest(store, KEPT)(keyOf(orgId), Buffer.from(text), { receivedAt });

type Series = Record<string, string>;

async function series(orgId: string, match = '{__name__!=""}'): Promise<Series[]> {
  await engine.flush();
  const { body } = await store.query(orgId, "series", new URLSearchParams({ "match[]": match, start: "-29d" }));
  return (JSON.parse(body.toString()) as { data: Series[] }).data;
}

/** Everything in the engine, as no tenant can see it. */
async function everything(match: string): Promise<Series[]> {
  await engine.flush();
  const answer = await fetch(`${engine.queryUrl}/api/v1/series?${new URLSearchParams({ "match[]": match, start: "-29d" }).toString()}`);
  return ((await answer.json()) as { data: Series[] }).data;
}

test("stores samples with the key's org, host and node", async () => {
  expect(await ingest("plain", 'up{job="x"} 1\n')).toEqual({ accepted: 1, dropped: {} });
  expect(await series("plain")).toEqual([{ __name__: "up", job: "x", org_id: "plain", host_id: "host-of-plain", node: "node-of-plain" }]);
});

test("series that differ only in a label that the server sets stay different, as in remote write and OTLP", async () => {
  const now = Date.now();
  await ingest("ksm", `kube_node_info{node="a"} 1 ${now}\nkube_node_info{node="b"} 1 ${now}\n`);
  expect((await series("ksm")).map((labels) => `${labels["exported_node"]} ${labels["node"]}`).sort()).toEqual([
    "a node-of-ksm",
    "b node-of-ksm",
  ]);
});

test("no spelling of another tenant's labels stores a sample outside the key's tenant", async () => {
  const spoofs = [
    'spoof{org_id="victim",host_id="h",node="n"} 1',
    'spoof{"org_id"="victim"} 2',
    'spoof{zzz="1",org_id="victim",aaa="2"} 4',
    'spoof{ org_id = "victim" , } 5',
    '{"spoof","org_id"="victim","host_id"="victim"} 6',
    'spoof{org_id="victim\\n"} 8',
    'spoof{org_id=""} 9',
    `spoof{org_id="victim"} 10 ${Date.now()} # {org_id="victim"} 1`,
    'spoof_total 11 # {org_id="victim"} 1',
    'spoof{vm_account_id="7",vm_project_id="7",org_id="victim"} 12',
    'spoof{job="x"} 13 # {"org_id"="victim"} 1',
    'spoof{"org_id\\\\"="victim"} 14',
  ];
  const refused = ['spoof{org_id="victim",org_id="victim"} 3', 'spoof{org_id="a","org_id"="b"} 3', 'spoof{__name__="spoof"} 7'];
  for (const spoof of refused)
    await expect(ingest("attacker", `ok 1\n${spoof}\n`)).rejects.toThrow(/line 2: the label (?:"org_id" is given twice|__name__)/);
  for (const spoof of spoofs) expect(await ingest("attacker", `${spoof}\n`)).toMatchObject({ accepted: 1 });
  await ingest("attacker", `# TYPE spoof counter\n${spoofs.join("\n")}\n# EOF\n`);
  const stored = await everything('{__name__=~".*spoof.*"}');
  expect(stored.length).toBeGreaterThan(5);
  for (const labels of stored) expect(labels).toMatchObject({ org_id: "attacker", host_id: "host-of-attacker", node: "node-of-attacker" });
  expect(await series("victim")).toEqual([]);
});

test("a body cannot set the node name of a key without one, and an org is never empty", async () => {
  const withKey = (key: SigningKey) =>
    createExpositionIngest(store, KEPT)(key, Buffer.from('nameless{node="other"} 1\n'), { receivedAt: new Date() });
  await withKey(keyOf("nameless", { node: "" }));
  expect(await series("nameless")).toMatchObject([{ node: "host-of-nameless" }]);
  await expect(withKey(keyOf(""))).rejects.toThrow("without org_id");
});

test("a label whose name looks like a request parameter is stored as a label", async () => {
  await ingest("odd", 'up{extra_label="org_id=victim",timestamp="5"} 1\n');
  await createExpositionIngest(store, KEPT)(keyOf("odd", { node: "a=b&extra_label=org_id=victim" }), Buffer.from("other 1\n"), {
    receivedAt: new Date(),
  });
  expect(await series("odd", "other")).toMatchObject([{ org_id: "odd", node: "a=b&extra_label=org_id=victim" }]);
  expect(await series("victim")).toEqual([]);
});

test("rejects a body with the number of its bad line, and stores nothing of it", async () => {
  const body = `good_one 1\n# comment\n${"good_two 2\n".repeat(20_000)}bad line here\ngood_three 3\n`;
  await expect(ingest("careful", body)).rejects.toMatchObject({
    code: "invalid_payload",
    status: 400,
    message: "not Prometheus exposition text, nothing was stored: line 20003: the value is not a number",
  });
  expect(await series("careful")).toEqual([]);
});

test("samples that the engine would silently drop are counted by reason, and the rest of their body is stored", async () => {
  const now = Date.now();
  const day = 86_400_000;
  const many = Array.from({ length: 37 }, (_, index) => `l${index}="v"`).join(",");
  const result = await ingest(
    "counted",
    [
      `kept 1 ${now}`,
      `kept{n="2"} 1 ${(now / 1000).toFixed(3)}`,
      `old 1 ${now - 31 * day}`,
      `ahead 1 ${now + 3 * day}`,
      `many{${many}} 1`,
      `long{a="${"x".repeat(4097)}"} 1`,
      // The engine would accept this one, and never find it.
      `longest{${Array.from({ length: 20 }, (_, index) => `l${index}="${"x".repeat(4000)}"`).join(",")}} 1`,
      `longer{a="${"x".repeat(4000)}",b="${"x".repeat(4000)}",c="${"x".repeat(184)}"} 1`,
      `kept{a="${"x".repeat(4000)}",b="${"x".repeat(4000)}",c="${"x".repeat(180)}"} 1 ${now}`,
      `longname{${"a".repeat(257)}="x"} 1`,
      "nothing NaN",
    ].join("\n"),
  );
  expect(result).toEqual({
    accepted: 3,
    dropped: {
      before_retention: 1,
      too_far_ahead: 1,
      too_many_labels: 1,
      too_long_label_value: 1,
      too_long_label_name: 1,
      too_long_labels: 2,
      not_a_number: 1,
    },
  });
  expect((await series("counted")).map(({ __name__ }) => __name__)).toEqual(["kept", "kept", "kept"]);
});

test("a sample with the timestamp 0 is of 1970, not of now", async () => {
  const lines = ["zero 1 0", 'zero{spelled="00"} 1 00', "zero 1 -0.0", "zero 1 0.0004", 'zero{a="b"} 1 0 # {trace_id="x"} 1', "now 1"];
  expect(await ingest("epoch", lines.join("\r\n"))).toEqual({ accepted: 1, dropped: { time_zero: 5 } });
  expect((await series("epoch")).map(({ __name__ }) => __name__)).toEqual(["now"]);
  await expect(ingest("epoch", "zero 1 0 x\n")).rejects.toMatchObject({ code: "invalid_payload" });
});

test("stores a repeated body as the same samples, if lines have no time, with the time of receipt", async () => {
  const receivedAt = new Date();
  for (let again = 0; again < 3; again += 1) await ingest("again", `timed 1 ${receivedAt.getTime() - 1000}\nuntimed 2\n`, receivedAt);
  await engine.flush();
  const { body } = await store.query(
    "again",
    "query",
    new URLSearchParams({ query: "count_over_time({__name__!=''}[5m]) keep_metric_names", time: String(receivedAt.getTime() / 1000 + 5) }),
  );
  const { result } = (JSON.parse(body.toString()) as { data: { result: { value: [number, string] }[] } }).data;
  expect(result.map(({ value }) => value[1])).toEqual(["1", "1"]);
});

/** A store that answers only when the test decides, with the organisations whose bodies have reached it. */
function heldStore() {
  const writes: string[] = [];
  const ends: (() => void)[] = [];
  const store = stub<VictoriaMetricsStore>({
    write: async ({ orgId }: { orgId: string }) => {
      writes.push(orgId);
      await new Promise<void>((resolve) => ends.push(resolve));
    },
  });
  const answer = async (until: number): Promise<void> => {
    while (writes.length < until) {
      for (const end of ends.splice(0)) end();
      await new Promise((done) => setImmediate(done));
    }
    for (const end of ends.splice(0)) end();
  };
  const ingestHeld = createExpositionIngest(store, KEPT);
  const send = (orgId: string, body: Buffer) => ingestHeld(keyOf(orgId), body, { receivedAt: new Date() });
  return { writes, answer, send };
}

/** Long lines: it is their bytes that count. */
function bodyOf(bytes: number): Buffer {
  const line = `up{long="${"x".repeat(4000)}"} 1\n`;
  return Buffer.from(line.repeat(Math.ceil(bytes / line.length)));
}

test("huge bodies of one organisation wait for each other, and not those of other organisations", async () => {
  const { writes, answer, send } = heldStore();
  const huge = () => bodyOf(4.5 * 1024 * 1024);
  const flood = [send("red", huge()), send("red", huge()), send("red", huge())];
  await expect.poll(() => writes).toEqual(["red"]);
  const others = [send("blue", huge()), send("red", Buffer.from("up 1\n")), send("green", Buffer.from("up 1\n"))];
  await expect.poll(() => [...writes].sort()).toEqual(["blue", "green", "red", "red"]);
  await answer(6);
  await Promise.all([...flood, ...others]);
  expect(writes.slice(4)).toEqual(["red", "red"]);
});

test("the engine gets three large bodies of an organisation at a time, so that it stays busy and has slots for others", async () => {
  const { writes, answer, send } = heldStore();
  const large = () => bodyOf(1.2 * 1024 * 1024);
  const flood = Array.from({ length: 5 }, () => send("red", large()));
  await expect.poll(() => writes).toEqual(["red", "red", "red"]);
  const others = [send("blue", large()), send("red", Buffer.from("up 1\n")), send("green", bodyOf(4.5 * 1024 * 1024))];
  await expect.poll(() => [...writes].sort()).toEqual(["blue", "green", "red", "red", "red", "red"]);
  await answer(8);
  await Promise.all([...flood, ...others]);
  expect(writes.slice(6)).toEqual(["red", "red"]);
});

test("rejects a body above the limit of active series, and stores it once there is space", async () => {
  let limit = 3;
  const activeSeries = new ActiveSeries({ limitOf: (orgId) => (orgId === "limited" ? limit : 0), key: { k0: 3, k1: 4 } });
  const send = createExpositionIngest(store, { ...KEPT, activeSeries });
  const body = (...names: string[]) => Buffer.from(names.map((name) => `${name}{job="x"} 1\n`).join(""));
  const context = () => ({ receivedAt: new Date() });
  expect(await send(keyOf("limited"), body("a", "b", "c"), context())).toEqual({ accepted: 3, dropped: {}, activeSeries: 3 });
  await expect(send(keyOf("limited"), body("a", "d", "e"), context())).rejects.toMatchObject({
    code: "over_quota",
    status: 429,
    message: expect.stringContaining("active_series is 3"),
  });
  const names = async (): Promise<string[]> => (await series("limited")).map((one) => String(one["__name__"])).sort();
  expect(await names()).toEqual(["a", "b", "c"]);
  expect(await send(keyOf("limited"), body("a", "b"), context())).toMatchObject({ activeSeries: 3 });
  expect(await send(keyOf("free"), body("a", "b", "c", "d", "e"), context())).toEqual({ accepted: 5, dropped: {} });
  limit = 5;
  expect(await send(keyOf("limited"), body("a", "d", "e"), context())).toMatchObject({ activeSeries: 5 });
  expect(await names()).toEqual(["a", "b", "c", "d", "e"]);
});
