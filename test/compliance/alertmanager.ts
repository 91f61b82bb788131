// Sends the same alerts to a real Alertmanager and to the notification, with the same routes, and compares the messages that their receivers
// get. vmalert posts each alert to both at the same moment. Invariant: both sides have the same normalisation, which only removes what
// AtherOps adds for itself (`org_id`, `rule_id`, `alertgroup`).
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, openSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { stringify } from "yaml";
import { authority } from "../../agent/upstream/outgoing-proxy.fixture.ts";
import { sign } from "../../common/protocol/signature.ts";
import { toolPath } from "../../hack/fetch-tools.ts";
import { call, eventually, freeAddresses } from "../fixtures/processes.ts";
import { WebhookReceiver } from "../fixtures/webhook-receiver.ts";
import {
  ALERTS,
  INHIBIT_RULES,
  ROUTES,
  RULES,
  SCENARIO_S,
  type ScenarioRoute,
  SILENCES,
  TIME_INTERVALS,
  TIMES,
} from "./alertmanager-scenario.ts";
import { create, type Product, startProduct } from "./product.ts";

/** A webhook's body, reduced to what both have. */
export interface ReceivedMessage {
  readonly receiver: string;
  /** Identifies the group. */
  readonly labels: string;
  readonly atS: number;
  readonly status: string;
  readonly alerts: readonly string[];
  readonly common: string;
}

export interface AlertmanagerResult {
  readonly alertmanager: readonly ReceivedMessage[];
  readonly atherops: readonly ReceivedMessage[];
}

type Texts = Readonly<Record<string, string>>;
interface Body {
  readonly receiver: string;
  readonly status: string;
  readonly groupLabels: Texts;
  readonly commonLabels: Texts;
  readonly commonAnnotations: Texts;
  readonly alerts: readonly { readonly status: string; readonly labels: Texts; readonly annotations: Texts; readonly startsAt: string }[];
}

const ADDED = ["org_id", "rule_id", "alertgroup", "rule_revision"];
const SERIES = "compliance_signal";

export async function runAlertmanager(folder: string): Promise<AlertmanagerResult> {
  await using stack = new AsyncDisposableStack();
  const trusted = authority(folder, "receivers");
  const hooks = stack.use(await WebhookReceiver.start(trusted));
  const plain = stack.use(await startPlainReceiver());
  const alertmanager = stack.use(await startAlertmanager(join(folder, "alertmanager"), plain.url));
  const product = stack.use(
    await startProduct(folder, {
      ALERTMANAGER_URL: alertmanager.url,
      EVALUATION_INTERVAL: "1s",
      NOTIFY_ALLOWED_NETWORKS: "127.0.0.1",
      NOTIFY_CA_FILE: trusted.caFile,
    }),
  );
  await configure(product, hooks.url());
  const startMs = Date.now();
  const silences = SILENCES.map(async (silence) => {
    await sleep(silence.from * 1000);
    await createSilence(silence, startMs, alertmanager.url, product);
  });
  for (let second = 0; second < SCENARIO_S; second += 1) {
    await sendSamples(product, second);
    await sleep(Math.max(0, startMs + (second + 1) * 1000 - Date.now()));
  }
  await Promise.all(silences);
  const read = (received: readonly { readonly body: unknown; readonly atMs: number }[]) =>
    received.map(({ body, atMs }) => reduceMessage(body as Body, (atMs - startMs) / 1000));
  return { alertmanager: read(plain.received), atherops: read(hooks.received) };
}

async function startPlainReceiver() {
  const received: { body: unknown; atMs: number }[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const parts = await Array.fromAsync(request as AsyncIterable<Buffer>);
      received.push({ body: JSON.parse(Buffer.concat(parts).toString()), atMs: Date.now() });
      response.end();
    })();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    received,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

const matcherText = ({ label, op, value }: ScenarioRoute["matchers"][number]): string => `${label}${op}${JSON.stringify(value)}`;

/** The root of Alertmanager's tree is the default route. */
async function startAlertmanager(folder: string, receiverUrl: string) {
  mkdirSync(folder);
  const [address = ""] = await freeAddresses(1);
  const nodes = ROUTES.map(({ matchers, ...route }) => ({
    ...route,
    ...TIMES,
    ...(matchers.length > 0 && { matchers: matchers.map(matcherText) }),
  }));
  const config = {
    route: { ...nodes.at(-1), routes: nodes.slice(0, -1) },
    receivers: ROUTES.map(({ receiver: name }) => ({ name, webhook_configs: [{ url: receiverUrl, send_resolved: true }] })),
    inhibit_rules: INHIBIT_RULES.map(({ source_matchers: source, target_matchers: target, equal }) => ({
      source_matchers: source.map(matcherText),
      target_matchers: target.map(matcherText),
      equal,
    })),
    time_intervals: TIME_INTERVALS,
  };
  const file = join(folder, "alertmanager.yml");
  writeFileSync(file, stringify(config));
  const out = openSync(join(folder, "out"), "a");
  const flags = [
    `--config.file=${file}`,
    `--storage.path=${join(folder, "data")}`,
    `--web.listen-address=${address}`,
    "--cluster.listen-address=",
  ];
  const child = spawn(await toolPath("alertmanager"), flags, { env: {}, stdio: ["ignore", out, out] });
  const ended = once(child, "exit");
  const url = `http://${address}`;
  await eventually("Alertmanager is ready", async () => (await fetch(`${url}/-/ready`)).ok, 60_000);
  return {
    url,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

async function configure({ place, tenant }: Product, receiverUrl: string): Promise<void> {
  const { alertingUrl: url } = place;
  for (const interval of TIME_INTERVALS) await create(`${url}/time-intervals`, tenant, interval);
  for (const [at, rule] of INHIBIT_RULES.entries()) await create(`${url}/inhibit-rules`, tenant, { name: `rule ${at}`, ...rule });
  for (const { receiver, matchers, ...route } of ROUTES) {
    const { id } = await create(`${url}/channels`, tenant, { name: receiver, kind: "webhook", settings: { url: receiverUrl } });
    const body = { matchers, ...route, ...TIMES, channel_ids: [id] };
    if (matchers.length > 0) await create(`${url}/routes`, tenant, body);
    else await replaceDefault(url, tenant.token, body);
  }
  for (const { name, severity } of RULES) {
    const annotations = { summary: `${name} has the value {{ $value }}` };
    await create(`${url}/rules`, tenant, { name, severity, expr: `${SERIES}{rule="${name}"} > 0`, annotations });
  }
}

async function replaceDefault(url: string, bearer: string, body: object): Promise<void> {
  const [{ id } = { id: "" }] = (
    (await call("GET", `${url}/routes`, { bearer })).json as unknown as { id: string; is_default: boolean }[]
  ).filter(({ is_default: isDefault }) => isDefault);
  const answer = await call("PUT", `${url}/routes/${id}`, { bearer, body });
  if (answer.status !== 200) throw new Error(`the default route: ${answer.status} ${answer.text}`);
}

async function sendSamples({ place, tenant }: Product, second: number): Promise<void> {
  const lines = ALERTS.flatMap(({ rule, labels, from, to }) => {
    const text = Object.entries({ rule, ...labels }).map(([name, value]) => `${name}="${value}"`);
    return second < from ? [] : [`${SERIES}{${text.join(",")}} ${second < to ? 1 : 0}\n`];
  });
  const headers = { ...sign(tenant.apiKey, "POST", "/ingest", Date.now() / 1000), "content-type": "text/plain" };
  const answer = await fetch(`${place.apiUrl}/ingest`, { method: "POST", headers, body: lines.join("") });
  if (!answer.ok) throw new Error(`samples: ${answer.status} ${await answer.text()}`);
}

async function createSilence(
  silence: (typeof SILENCES)[number],
  startMs: number,
  alertmanagerUrl: string,
  { place, tenant }: Product,
): Promise<void> {
  const matchers = [
    { name: silence.label, value: silence.value, isRegex: false, isEqual: true },
    ...("rule" in silence ? [{ name: "alertname", value: silence.rule, isRegex: false, isEqual: true }] : []),
  ];
  const times = { startsAt: new Date().toISOString(), endsAt: new Date(startMs + silence.to * 1000).toISOString() };
  const body = JSON.stringify({ matchers, ...times, createdBy: "compliance", comment: "compared" });
  const headers = { "content-type": "application/json", authorization: `Bearer ${tenant.token}` };
  for (const url of [alertmanagerUrl, `${place.alertingUrl}/alertmanager`]) {
    const answer = await fetch(`${url}/api/v2/silences`, { method: "POST", headers, body });
    if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  }
}

function reduceMessage({ receiver, status, groupLabels, commonLabels, commonAnnotations, alerts }: Body, atS: number): ReceivedMessage {
  return {
    receiver,
    labels: plainText(groupLabels),
    atS,
    status,
    alerts: alerts
      .map(
        ({ status: state, labels, annotations, startsAt }) =>
          `${state} ${plainText(labels)} ${plainText(annotations)} ${Date.parse(startsAt)}`,
      )
      .toSorted(),
    common: `${plainText(commonLabels)} ${plainText(commonAnnotations)}`,
  };
}

function plainText(texts: Texts): string {
  const names = Object.keys(texts).filter((name) => !ADDED.includes(name));
  return JSON.stringify(Object.fromEntries(names.toSorted().map((name) => [name, texts[name]])));
}
