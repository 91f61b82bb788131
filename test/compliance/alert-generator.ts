// The official tests of alert generators (github.com/prometheus/compliance, alert_generator), built with Go from a checkout. They write
// samples for 38 minutes, and compare the rules, the alerts, the series ALERTS and the alerts that are sent with those of Prometheus. This
// file is the gateway between them and the backend: it removes what AtherOps adds to each alert on purpose. Invariant: every adaptation is
// in `ADAPTATIONS`, which the page lists.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parse, stringify } from "yaml";
import { call, eventually, freePorts } from "../fixtures/processes.ts";
import { create, type Product, startProduct } from "./product.ts";

export const ADAPTATIONS = [
  "The labels that the server adds, such as `severity` and `rule_id`, and the annotations that the server adds, are removed: each alert has them, because routes, tenants and links need them.",
  "Rules are grouped by their label `rulegroup`: an organisation's rules are one group, named `rules`.",
  "Sent alerts are forwarded once a minute, with an `endsAt` two minutes later: vmalert posts each alert at every evaluation, because the notification resolves alerts by evaluation; the test expects `-rule.resendDelay=1m`.",
  "The tester waits 10 s for a write instead of 2 s, takes more errors before it blocks, and listens on loopback only.",
  "The annotations `template_test` and `template_query_test` are removed from the test: templates print only values of the alert, so `query`, `define`, `match` and others are rejected.",
  "The test begins 5 s after an evaluation: a sample can be queried about a second after its write, so one that is written just before an evaluation may count for the next one.",
] as const;

export interface AlertGeneratorResult {
  readonly passed: readonly string[];
  /** Name of the rule group → the tester's first message. */
  readonly failed: ReadonlyMap<string, string>;
  readonly groups: readonly string[];
}

const ADDED_LABELS = new Set(["severity", "rule_id", "org_id", "alertgroup", "host_id", "node"]);
const INTERVAL_MS = 30_000;
const RESEND_MS = 59_000;
const LATER_MS = 120_000;

type Texts = Record<string, string>;
interface PostedAlert {
  readonly labels: Texts;
  readonly annotations: Texts;
  readonly endsAt: string;
}

/** `suite`: the folder alert_generator of a checkout. Takes 40 minutes, in which it is mostly idle. */
export async function runAlertGenerator(suite: string, folder: string): Promise<AlertGeneratorResult> {
  const [port = 0] = await freePorts(1);
  const gateway = new Gateway(port);
  await using _listening = await gateway.listen();
  const env = { ALERTMANAGER_URL: gateway.url, EVALUATION_INTERVAL: `${INTERVAL_MS}ms`, NOTIFY_ALLOWED_NETWORKS: "127.0.0.1" };
  await using product = await startProduct(folder, env);
  gateway.product = product;
  const sources = join(folder, "alert_generator");
  cpSync(suite, sources, { recursive: true });
  for (const file of globSync("{server,remote_write,cases/case_*}.go", { cwd: sources })) {
    const path = join(sources, file);
    let text = readFileSync(path, "utf8").replaceAll(UNSUPPORTED_ANNOTATION, "");
    for (const [before, after] of REPLACED) text = text.replaceAll(before, after);
    writeFileSync(path, text);
  }
  const { groups } = parse(readFileSync(join(suite, "rules.yaml"), "utf8")) as { groups: readonly SuiteGroup[] };
  for (const { rules } of groups) for (const rule of rules) await createRule(product, rule);
  const config = join(folder, "alert-generator.yml");
  const asReader = { basic_auth_user: "compliance", basic_auth_pass: product.readToken };
  writeFileSync(
    config,
    stringify({
      settings: {
        remote_write_url: `${product.place.apiUrl}/api/v1/write`,
        query_base_url: gateway.url,
        rules_and_alerts_api_base_url: gateway.url,
        alert_reception_server_port: String(port),
      },
      auth: {
        remote_write: { basic_auth_user: "compliance", basic_auth_pass: product.ingestToken },
        query: asReader,
        rules_and_alerts_api: asReader,
      },
    }),
  );
  const names = groups.map(({ name }) => name);
  const program = buildTester(sources, folder);
  await afterEvaluation(product);
  return readResult(names, await runTester(program, config));
}

interface SuiteGroup {
  readonly name: string;
  readonly rules: readonly { alert: string; expr: string; for?: string; labels: Texts; annotations: Texts }[];
}

/** In the tests' sources, with the comma before it: in a map or in a list of names and values. */
const UNSUPPORTED_ANNOTATION =
  /,\s*"template_(?:query_)?test"\s*[:,]\s*(?:fmt\.Sprintf\(`[^`]*`,\s*sourceTimeSeriesName, tc\.groupName,\s*\)|"(?:[^"\\]|\\.)*"|`[^`]*`)/g;

/** The tests listen only on loopback, and a second late write neither blocks them for ever nor fails at once on a busy machine. */
const REPLACED = [
  ['":" + port', '"127.0.0.1:" + port'],
  ["make(chan error, 1)", "make(chan error, 1000)"],
  ["context.Background(), 2*time.Second", "context.Background(), 10*time.Second"],
] as const;

async function createRule({ place, tenant }: Product, rule: SuiteGroup["rules"][number]): Promise<void> {
  const { template_test: _test, template_query_test: _query, ...annotations } = rule.annotations;
  const { alert: name, expr, labels } = rule;
  const body = { name, severity: "info", expr, for: rule.for ?? "0s", labels, annotations };
  await create(`${place.alertingUrl}/rules`, tenant, body);
}

function buildTester(sources: string, folder: string): string {
  const program = join(folder, "alert-generator-tester");
  const env = { ...process.env, GOWORK: "off", CGO_ENABLED: "0" };
  const options = { cwd: sources, env, encoding: "utf8" } as const;
  const build = spawnSync("go", ["build", "-o", program, "./cmd/alert_generator_compliance_tester"], options);
  if (build.status !== 0) throw new Error(`the tests of alert generators cannot be built: ${build.stderr}`);
  return program;
}

async function runTester(program: string, config: string): Promise<string> {
  const child = spawn(program, [`-config-file=${config}`], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      process.stderr.write(text);
    });
  await once(child, "close");
  return output;
}

/** Resolves 5 s after an evaluation of the rules. */
async function afterEvaluation({ place, readToken }: Product): Promise<void> {
  const lastMs = await eventually("the rules are evaluated", async () => {
    const { text } = await call("GET", `${place.apiUrl}/query/prometheus/api/v1/rules`, { bearer: readToken });
    const ms = Date.parse(/"lastEvaluation":"([^"]+)"/.exec(text)?.[1] ?? "");
    // Year 1: not evaluated yet.
    return ms > 0 && ms;
  });
  await sleep(INTERVAL_MS - ((Date.now() - lastMs) % INTERVAL_MS) + 5000);
}

function readResult(groups: readonly string[], output: string): AlertGeneratorResult {
  const failed = new Map<string, string>();
  for (const part of output.split("Group Name: ").slice(1)) {
    const [name = "", ...lines] = part.split("\n");
    const why = lines.map((line) => line.trim()).find((line) => line !== "" && !line.startsWith("-"));
    if (!failed.has(name)) failed.set(name, why ?? "");
  }
  if (failed.size === 0 && !output.includes("Congrats!"))
    throw new Error(`the tests of alert generators did not end: ${output.slice(-2000)}`);
  return { passed: groups.filter((name) => !failed.has(name)), failed, groups };
}

/** Forwards queries of the tests to the backend, and alerts of vmalert to the tests. */
class Gateway {
  product: Product | undefined;
  url = "";
  readonly #testerPort: number;
  /** By labels: the last forwarded state, and when. */
  readonly #forwarded = new Map<string, { readonly isFiring: boolean; readonly atMs: number }>();

  constructor(testerPort: number) {
    this.#testerPort = testerPort;
  }

  async listen(): Promise<AsyncDisposable> {
    const server = createServer((request, response) => {
      const handle = request.method === "POST" ? this.#alerts(request) : this.#query(request.url ?? "");
      handle.then(
        (body) => response.end(body),
        (error: unknown) => refuse(response, error),
      );
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return {
      async [Symbol.asyncDispose]() {
        server.closeAllConnections();
        await new Promise((done) => server.close(done));
      },
    };
  }

  async #alerts(request: IncomingMessage): Promise<string> {
    const body = Buffer.concat(await Array.fromAsync(request as AsyncIterable<Buffer>)).toString();
    const nowMs = Date.now();
    const due = (JSON.parse(body) as PostedAlert[]).flatMap((alert) => {
      const labels = withoutAdded(alert.labels);
      const isFiring = Date.parse(alert.endsAt) > nowMs;
      const last = this.#forwarded.get(JSON.stringify(labels));
      if (last?.isFiring === isFiring && nowMs - last.atMs < RESEND_MS) return [];
      this.#forwarded.set(JSON.stringify(labels), { isFiring, atMs: nowMs });
      const endsAt = isFiring ? new Date(Date.parse(alert.endsAt) + LATER_MS).toISOString() : alert.endsAt;
      return [{ ...alert, labels, annotations: withoutServerAnnotations(alert.annotations), endsAt }];
    });
    if (due.length === 0) return "";
    const url = `http://127.0.0.1:${this.#testerPort}/api/v2/alerts`;
    return await (await fetch(url, { method: "POST", body: JSON.stringify(due) })).text();
  }

  async #query(path: string): Promise<string> {
    const { place, readToken } = this.product as Product;
    const answer = await fetch(`${place.apiUrl}/query/prometheus${path}`, { headers: { authorization: `Bearer ${readToken}` } });
    const body = (await answer.json()) as Answer;
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${JSON.stringify(body)}`);
    const { alerts, groups, result } = body.data;
    const data = alerts
      ? { alerts: alerts.map(withoutAddedLabels) }
      : groups
        ? { groups: regroup(groups) }
        : { ...body.data, result: result?.map(plainSeries) };
    return JSON.stringify({ ...body, data });
  }
}

interface Answer {
  readonly data: {
    readonly alerts?: readonly Labelled[];
    readonly groups?: readonly { readonly rules: readonly (Labelled & { readonly alerts: readonly Labelled[] })[] }[];
    readonly result?: readonly { readonly metric: Texts }[];
  };
}
interface Labelled {
  readonly labels: Texts;
}

function regroup(groups: NonNullable<Answer["data"]["groups"]>): object[] {
  return groups.flatMap((group) => {
    const rules = group.rules.map((rule) => ({ ...withoutAddedLabels(rule), alerts: rule.alerts.map(withoutAddedLabels) }));
    return [...Map.groupBy(rules, ({ labels }) => labels["rulegroup"])].map(([name, members]) => ({ ...group, name, rules: members }));
  });
}

function withoutAddedLabels<T extends Labelled>(labelled: T): T {
  return { ...labelled, labels: withoutAdded(labelled.labels) };
}

function plainSeries<T extends { readonly metric: Texts }>(series: T): T {
  return { ...series, metric: withoutAdded(series.metric) };
}

function withoutAdded(labels: Texts): Texts {
  return Object.fromEntries(Object.entries(labels).filter(([name]) => !ADDED_LABELS.has(name)));
}

function withoutServerAnnotations(annotations: Texts): Texts {
  return Object.fromEntries(Object.entries(annotations).filter(([name]) => name !== "rule_revision" && !name.startsWith("__raw_")));
}

function refuse(response: ServerResponse, error: unknown): void {
  response.writeHead(502).end(String(error));
}
