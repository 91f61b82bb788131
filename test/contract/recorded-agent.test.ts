// What agents of an earlier release sent, with what the backend of that release answered (test/vectors/recorded-agent.json): today's backend
// answers each request in the same way, and then returns the same rows. To record again: RECORD=COMMIT, AGENT_CHECKOUT and BACKEND_CHECKOUT.
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import type { Tenant } from "../fixtures/backend-process.ts";
import { hostAgentPlace, startHostAgent } from "../fixtures/host-agent-process.ts";
import { IdentityCluster } from "../fixtures/identity-cluster.ts";
import { apiServerOfFile } from "../fixtures/kube-apiserver.ts";
import { call, eventually, readIfThere, ROOT } from "../fixtures/processes.ts";
import { type Exchange, Recorder, type Recording, Replay, toCompare } from "../fixtures/recorded-agent.ts";

const FILE = join(ROOT, "test/vectors/recorded-agent.json");
/** The commit of both checkouts. */
const RECORD = process.env["RECORD"];
const backend = backendOfFile({ JWT_TTL: "2h" });
let tenant: Tenant;

beforeAll(async () => {
  tenant = await backend.tenant("recorded");
});

describe.runIf(RECORD)("with RECORD=COMMIT", () => {
  let recorder: Recorder;
  beforeAll(async () => {
    recorder = await Recorder.start(backend.apiUrl);
  });
  afterAll(async () => {
    await recorder[Symbol.asyncDispose]();
  });

  const ask = (method: string, path: string, body?: object) =>
    call(method, `${recorder.url}${path}`, { bearer: tenant.token, ...(body && { body }) });
  const installToken = async (): Promise<string> => (await ask("POST", "/api/install-tokens", {})).json.token as string;
  const times = (path: string): number => recorder.paths.filter((each) => each === path).length;

  test("records a host's agent", async () => {
    const place = await hostAgentPlace(backend.folder, recorder.url, {
      INSTALL_TOKEN: await installToken(),
      METRICS_INTERVAL: "10s",
      HEARTBEAT_INTERVAL: "5s",
      REMOTE_CONFIG_INTERVAL: "5s",
    });
    await using agent = await startHostAgent(place);
    const [host] = (await call("GET", `${backend.apiUrl}/api/v1/agents`, { bearer: tenant.token })).json;
    const configPath = `/api/v1/agents/${host.agent_id}/config`;
    await ask("PUT", configPath, { intervals: { metrics: "11s" } });
    const lines = (first: number): string =>
      [
        `plain line ${first}`,
        `{"level":"error","msg":"json line ${first}","trace_id":"0af7651916cd43dd8448eb211c80319c","user":"u-${first}"}`,
        `level=warn msg="logfmt line ${first}" took=12ms`,
        `ERROR upper-case line ${first}: ünïcödé ✓`,
      ].join("\n") + "\n";
    for (let first = 0; first < 5; first += 1) {
      appendFileSync(join(place.logFolder, "shop.log"), lines(first));
      await sendOtlp(place.otlpHttp, first);
      await eventually(
        "logs, traces and metrics are sent",
        () => times("/ingest/logs/otlp") > 2 * first && times("/ingest/traces") > first,
      );
    }
    await eventually("the configuration is fetched and reported", () => times(configPath) > 3 && times("/ingest/agents/heartbeat") > 4);
    await eventually("metrics are sent twice", () => times("/ingest") > 3);
    expect(await agent.end()).toBe(0);
  });

  describe("in a cluster", () => {
    const apiServer = apiServerOfFile();

    test("records a cluster's agent, and its rotation", async () => {
      await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, recorder.url);
      await using agent = cluster.agent("node", { installToken: await installToken(), heartbeatEveryMs: 1000 });
      const first = await agent.signing();
      await cluster.requestRotation();
      expect(await agent.signing((hash) => hash !== first)).not.toBe(first);
    });
  });

  test("records what is stored, and writes the recording", async () => {
    // Without it, the last samples may not be visible yet.
    await sleep(5000);
    const time = Math.floor(Date.now() / 1000);
    for (const path of QUERIES) await ask("GET", path.replace("TIME", String(time)));
    const ofThisMachine = {
      [backend.folder]: "/var/recorded",
      [hostname()]: "recorded-host",
      [readIfThere("/etc/machine-id").trim() || hostname()]: "0123456789abcdef0123456789abcdef",
    };
    const recording = recorder.recording(RECORD ?? "", tenant.token, ofThisMachine);
    expect(new Set(recording.exchanges.map(({ status }) => status))).toEqual(new Set([200, 201, 204, 304]));
    writeFileSync(FILE, toText(recording));
  });
});

/** TIME: of the end of the recording. */
const QUERIES = [
  "/query/logs?limit=500",
  "/query/traces?limit=500",
  `/query/prometheus/api/v1/query?time=TIME&query=${encodeURIComponent("count by (__name__) ({__name__!=''})")}`,
  `/query/prometheus/api/v1/query?time=TIME&query=${encodeURIComponent("{__name__=~'shop_.*'}")}`,
];

/** As an application in some language would: a trace with two spans, a log record, and a counter, a gauge and a histogram. */
async function sendOtlp(url: string, number: number): Promise<void> {
  const now = BigInt(Date.now()) * 1_000_000n + 123_456n;
  const attribute = (key: string, value: object) => ({ key, value });
  const resource = {
    attributes: [
      attribute("service.name", { stringValue: "shop" }),
      attribute("org_id", { stringValue: "of the sender" }),
      attribute("service.instance.id", { stringValue: `shop-${number}` }),
    ],
  };
  const scope = { name: "shop", version: "1.2.3" };
  const traceId = (0xabcdef0123456789n + BigInt(number)).toString(16).padStart(32, "0");
  const span = (id: number, more: object) => ({
    traceId,
    spanId: String(id).padStart(16, "0"),
    name: `GET /carts/${id}`,
    kind: 2,
    startTimeUnixNano: String(now - 20_000_000n),
    endTimeUnixNano: String(now),
    attributes: [attribute("http.response.status_code", { intValue: "500" }), attribute("cached", { boolValue: false })],
    ...more,
  });
  const events = [
    { timeUnixNano: String(now), name: "exception", attributes: [attribute("exception.message", { stringValue: "no cart" })] },
  ];
  const spans = [
    span(2 * number + 1, { status: { code: 2, message: "no cart" }, events }),
    span(2 * number + 2, { parentSpanId: String(2 * number + 1).padStart(16, "0") }),
  ];
  const severities = [{ severityText: "Warning", severityNumber: 13 }, { severityNumber: 17 }, {}];
  const record = {
    timeUnixNano: String(now),
    body: { stringValue: `cart ${number} is empty` },
    traceId,
    spanId: spans[0]?.spanId,
    attributes: [attribute("cart", { intValue: String(number) }), attribute("price", { doubleValue: 9.5 })],
    ...severities[number % 3],
  };
  const point = {
    startTimeUnixNano: String(now - 1_000_000_000n),
    timeUnixNano: String(now),
    attributes: [attribute("code", { stringValue: "500" })],
  };
  const metrics = [
    { name: "shop.carts", sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints: [{ ...point, asInt: String(number) }] } },
    { name: "shop.price", unit: "EUR", gauge: { dataPoints: [{ ...point, asDouble: 9.25 }] } },
    {
      name: "shop.latency",
      unit: "s",
      histogram: {
        aggregationTemporality: 2,
        dataPoints: [{ ...point, count: "3", sum: 0.75, bucketCounts: ["1", "1", "1"], explicitBounds: [0.1, 0.5] }],
      },
    },
  ];
  const bodies = {
    traces: { resourceSpans: [{ resource, scopeSpans: [{ scope, spans }] }] },
    logs: { resourceLogs: [{ resource, scopeLogs: [{ scope, logRecords: [record] }] }] },
    metrics: { resourceMetrics: [{ resource, scopeMetrics: [{ scope, metrics }] }] },
  };
  // A changed configuration restarts the collector.
  for (const [signal, body] of Object.entries(bodies))
    await eventually(`${signal} are accepted`, async () => (await call("POST", `${url}/v1/${signal}`, { body })).status === 200);
}

/** An exchange per line, so that a difference can be read. */
function toText({ exchanges, ...rest }: Recording): string {
  const lines = exchanges.map((each) => `    ${JSON.stringify(each)}`);
  return `${JSON.stringify(rest).slice(0, -1)},\n  "exchanges": [\n${lines.join(",\n")}\n  ]\n}\n`;
}

/** A query is repeated until its answer is the recorded one, because metrics are visible some seconds after they are stored. */
async function answerOf(replay: Replay, exchange: Exchange): Promise<unknown> {
  let answer = toCompare(exchange, await replay.say(exchange));
  const isSame = async (): Promise<boolean> => {
    answer = toCompare(exchange, await replay.say(exchange));
    return isDeepStrictEqual(answer, toCompare(exchange, exchange));
  };
  if (exchange.path.startsWith("/query/")) await eventually("the recorded answer", isSame, 30_000).catch(() => undefined);
  return answer;
}

describe.runIf(!RECORD)("the requests of agents of an earlier release", () => {
  test("are answered as their backend answered them, and are stored as it stored them", async () => {
    const recording = JSON.parse(readFileSync(FILE, "utf8")) as Recording;
    const replay = new Replay(backend.apiUrl, tenant.token, recording);
    const counts: Record<string, number> = {};
    for (const exchange of recording.exchanges) {
      const { method, path, status } = exchange;
      expect(await answerOf(replay, exchange), `${method} ${path}`).toEqual(toCompare(exchange, exchange));
      const name = `${method} ${path.split("?")[0]}: ${status}`;
      counts[name] = (counts[name] ?? 0) + 1;
    }
    console.log(`answered as by the backend of ${recording.commit}:`, counts);
  });
});
