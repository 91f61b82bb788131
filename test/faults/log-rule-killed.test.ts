// A rule over log records fires while the backend and its engines are killed: receivers get no resolved message, because the condition is
// still met.
import { afterAll, beforeAll, expect, test } from "vitest";
import { authority } from "../../agent/upstream/outgoing-proxy.fixture.ts";
import { logRecord, logsBody, nanosecondsOf, stringAttribute } from "../../backend/ingest/otlp/otlp-body.fixture.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import type { Tenant } from "../fixtures/backend-process.ts";
import { call, signedPost, temporaryFolder } from "../fixtures/processes.ts";
import { verified, WebhookReceiver } from "../fixtures/webhook-receiver.ts";

const WITHIN_MS = 240_000;
const folder = temporaryFolder();
const trusted = authority(folder.path, "trusted");
const receiver = await WebhookReceiver.start(trusted);
const backend = backendOfFile({
  EVALUATION_INTERVAL: "2s",
  JWT_TTL: "2h",
  NOTIFY_ALLOWED_NETWORKS: "127.0.0.1",
  NOTIFY_CA_FILE: trusted.caFile,
});
let red: Tenant;

beforeAll(async () => {
  red = await backend.tenant("red");
});
afterAll(async () => {
  await receiver[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

async function made(path: string, body: object): Promise<Record<string, string>> {
  const answer = await call("POST", `${backend.apiUrl}/alerting${path}`, { bearer: red.token, body });
  expect([answer.status, answer.text]).toEqual([201, answer.text]);
  return answer.json;
}

async function send(source: string): Promise<void> {
  const time = nanosecondsOf(new Date());
  const records = [0n, 1n, 2n].map((at) => logRecord(time + at, `${source} ${at}`, { severityText: "ERROR" }));
  const answer = await signedPost(
    backend.apiUrl,
    "/ingest/logs/otlp",
    red.apiKey,
    logsBody(records, [stringAttribute("service.name", source)]),
  );
  expect([answer.status, answer.text]).toEqual([204, ""]);
}

test(
  "keeps firing after a restart, and sends no resolved notification in between",
  async () => {
    const hook = await made("/channels", { name: "hook", kind: "webhook", settings: { url: receiver.url("hook") } });
    await made("/routes", { matchers: [], channel_ids: [hook["id"]], group_by: ["source"], group_wait: "0s", group_interval: "5s" });
    const logs = { filter: { level: "error" }, window: "10m", by: ["source"], operator: ">", threshold: 2 };
    const { id } = await made("/rules", { name: "errors", severity: "critical", logs });
    const received = (): string[] =>
      receiver.received.flatMap((one) =>
        verified(one, hook["signing_secret"] ?? "").alerts.map(({ labels, status }) => `${labels["source"]} ${status}`),
      );
    await send("before");
    await backend.shows("it fires", async () => received().includes("before firing"), WITHIN_MS);

    const engines = [backend.enginePid("vmalert"), backend.enginePid("victoria-metrics")];
    await backend.end("SIGKILL");
    for (const pid of engines) process.kill(pid, "SIGKILL");
    await backend.start();
    await send("after");
    // A later count, a later evaluation, a later message.
    await backend.shows("another value fires", async () => received().includes("after firing"), WITHIN_MS);
    const status = await call("GET", `${backend.apiUrl}/alerting/rules/${id}/status`, { bearer: red.token });
    expect(status.json).toMatchObject({ state: "firing", active_alerts: 2 });
    expect([...new Set(received())]).toEqual(["before firing", "after firing"]);
  },
  3 * WITHIN_MS,
);
