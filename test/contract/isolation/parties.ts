// Two organisations with data of every kind. Every name, text and number that one of them stores is one of its markers, so that a response
// shows whose data it contains.
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { sign } from "../../../common/protocol/signature.ts";
import { login, makeTenant, type Tenant } from "../../fixtures/backend-process.ts";
import { type Answer, call, signedPost } from "../../fixtures/processes.ts";

/** Where a backend listens; the same for each of its starts. */
export interface Served {
  readonly apiUrl: string;
}

export interface Party extends Tenant {
  /** Part of each name and text. */
  readonly word: string;
  readonly traceId: string;
  /** Stored log records, and as many spans of `traceId`. */
  readonly records: number;
  readonly host: { readonly id: string; readonly key: string };
  readonly cluster: { readonly id: string; readonly key: string };
  readonly channelId: string;
  readonly ruleId: string;
  readonly sloId: string;
  readonly silenceId: string;
  readonly dashboardId: string;
  readonly viewId: string;
  /** A session of a browser. */
  readonly cookie: string;
  readonly markers: readonly string[];
}

/** A trace and a service that both organisations have. */
export const SHARED_TRACE = "5".repeat(32);
export const SHARED_SERVICE = "shared-service";
const SHARED_KEY = "shared_key";

interface Wanted {
  readonly word: string;
  readonly digit: string;
  readonly records: number;
  readonly limit: number;
  /** Unset: a machine and a cluster that both organisations have. */
  readonly machine?: string;
}

const RED: Wanted = { word: "ofred", digit: "1", records: 7, limit: 7_000_000_007 };
const BLUE: Wanted = { word: "ofblue", digit: "2", records: 5, limit: 5_000_000_005 };

export async function makeParties(served: Served, operator: string): Promise<[Party, Party]> {
  const make = async (wanted: Wanted) => await makeParty(served, operator, wanted, await makeTenant(served.apiUrl, operator, wanted.word));
  return [await make(RED), await make(BLUE)];
}

/** A reader that may see one namespace of an organisation. */
export interface LimitedParty extends Party {
  /** A read token with the same limits as the session `token`. */
  readonly readToken: string;
}

/** Two readers of one organisation, each of which may see one of its namespaces; each namespace has data of every kind. */
export async function makeLimitedParties(served: Served, operator: string): Promise<[LimitedParty, LimitedParty]> {
  const tenant = await makeTenant(served.apiUrl, operator, "limited");
  const make = async (wanted: Wanted): Promise<LimitedParty> => {
    const party = await makeParty(served, operator, { ...wanted, machine: wanted.word }, tenant);
    const admin = new Admin(served, tenant.token);
    const label_limits = { "k8s.namespace.name": [wanted.word] };
    const user = { email: `limited@${wanted.word}.example`, password: randomUUID(), role: "viewer", label_limits };
    await admin.made("/api/users", user);
    const { email, password } = user;
    const token = await login(served.apiUrl, email, password);
    const cookie = await openBrowserSession(served, { email, password });
    const { token: readToken } = await admin.made("/api/read-tokens", { name: `${wanted.word}-limited`, label_limits });
    // Both have the same organisation, its key and its limit.
    const common = [tenant.orgId, tenant.keyId, String(wanted.limit)];
    return { ...party, token, cookie, readToken, markers: party.markers.filter((marker) => !common.includes(marker)) };
  };
  return [await make(RED), await make(BLUE)];
}

async function openBrowserSession({ apiUrl }: Served, credentials: { email: string; password: string }): Promise<string> {
  const session = await call("POST", `${apiUrl}/api/auth/session`, { body: credentials });
  return String(session.headers.get("set-cookie")).split(";", 1)[0] ?? "";
}

async function makeParty(
  served: Served,
  operator: string,
  { word, digit, records, limit, machine = "same" }: Wanted,
  tenant: Tenant,
): Promise<Party> {
  const traceId = digit.repeat(32);
  const admin = new Admin(served, tenant.token);
  await new Admin(served, operator).send("PUT", `/api/orgs/${tenant.orgId}/limits`, { bytes_per_second: limit });
  const { host, cluster, ids } = await makeAgents(admin, word, machine);
  const password = randomUUID();
  const { user_id } = await admin.made("/api/users", { email: `viewer@${word}.example`, password, role: "viewer" });
  const cookie = await openBrowserSession(served, { email: `viewer@${word}.example`, password });
  const { id: readTokenId } = await admin.made("/api/read-tokens", { name: `${word}-token` });
  const { invitation_id } = await admin.made("/api/invitations", { email: `invited@${word}.example`, role: "viewer" });
  const { id: ingestTokenId } = await admin.made("/api/ingest-tokens", { name: `${word}-ingest-token` });
  const { id: installTokenId } = await admin.made("/api/install-tokens", {});
  const { id: issuerId } = await admin.made("/api/issuers", issuerOf(word));
  const saved = await makeSaved(admin, word);
  const alerting = await makeAlerting(admin, word);
  const markers = [
    word,
    tenant.orgId,
    tenant.keyId,
    traceId,
    String(limit),
    ...ids,
    user_id,
    invitation_id,
    readTokenId,
    ingestTokenId,
    installTokenId,
    issuerId,
  ];
  const party = {
    ...tenant,
    ...alerting,
    ...saved,
    word,
    traceId,
    records,
    host,
    cluster,
    cookie,
    markers: [...markers, ...Object.values(alerting), ...Object.values(saved)],
  };
  await sendTelemetry(served, party);
  return party;
}

const { publicKey } = generateKeyPairSync("ed25519");

/** A trusted issuer whose name and URL contain the word. */
export function issuerOf(word: string): object {
  const jwks = { keys: [{ ...publicKey.export({ format: "jwk" }), kid: word }] };
  return { name: word, issuer: `https://${word}.example`, jwks, rules: [{ claims: { sub: word }, permit: "send" }] };
}

/** An interval that differs between the parties. */
export function intervalOf(word: string): string {
  return `${Buffer.from(word).reduce((sum, byte) => sum * 31 + byte, 7) % 86_400}s`;
}

/** A cluster with a node, and a host, with a configuration, each of which has sent a heartbeat. */
async function makeAgents(admin: Admin, word: string, machine: string) {
  const register = async (path: string, body: object) => {
    const { token } = await admin.made("/api/install-tokens", {});
    return await admin.made(path, body, { authorization: `Bearer ${token}`, "idempotency-key": randomUUID() });
  };
  const common = { agent_version: "1" };
  const cluster = await register("/api/clusters/register", { cluster_name: `${word}-cluster`, cluster_uid: machine, ...common });
  const host = await register("/api/v1/agents/register", { hostname: `${word}-host`, machine_id: machine, ...common });
  const beat = { node: `${word}-node`, agent_version: "1", collector: { state: "running", restarts: 0, last_error: word } };
  for (const [path, key] of [
    ["/heartbeat", cluster.api_key],
    ["/ingest/agents/heartbeat", host.api_key],
  ] as const)
    await admin.send("POST", path, beat, sign(key, "POST", path, Date.now() / 1000));
  await admin.send("PUT", `/api/v1/agents/${host.agent_id}/config`, { log_paths: [`/var/log/${word}/*.log`] });
  await admin.send("PUT", `/api/clusters/${cluster.cluster_id}/config`, { config: { intervals: { metrics: intervalOf(word) } } });
  const agents = { host: { id: host.agent_id, key: host.api_key }, cluster: { id: cluster.cluster_id, key: cluster.api_key } };
  return { ...agents, ids: [cluster.cluster_id, host.agent_id] };
}

async function makeSaved(admin: Admin, word: string) {
  const panel = { title: word, kind: "stat", source: "metrics", width: 6, queries: [{ query: `${word}_metric` }] };
  const dashboard = { name: `${word}-dashboard`, description: word, variables: [], panels: [panel] };
  const { id: dashboardId } = await admin.made("/api/dashboards", dashboard);
  const { id: viewId } = await admin.made("/api/views", { name: `${word}-view`, address: `#/logs?q=${word}` });
  return { dashboardId, viewId };
}

/** A rule that fires soon, and a message about it to an address where nothing listens. */
async function makeAlerting(admin: Admin, word: string) {
  const settings = { url: `https://127.0.0.2:1/${word}` };
  const { id: channelId } = await admin.made("/alerting/channels", { name: `${word}-channel`, kind: "webhook", settings });
  const matchers = [{ label: "who", op: "=", value: word }];
  const interval = `${word}-interval`;
  await admin.made("/alerting/time-intervals", { name: interval, time_intervals: [{ years: ["1970"] }] });
  const inhibition = { name: `${word}-inhibition`, source_matchers: [{ label: "other", op: "=", value: word }], target_matchers: matchers };
  await admin.made("/alerting/inhibit-rules", inhibition);
  const times = { group_wait: "1s", group_interval: "5s", mute_time_intervals: [interval] };
  const { id: routeId } = await admin.made("/alerting/routes", { matchers, channel_ids: [channelId], ...times });
  const rule = {
    name: `${word}-rule`,
    severity: "critical",
    expr: `last_over_time(${word}_metric[1h]) > 0`,
    annotations: { summary: word },
  };
  const { id: ruleId } = await admin.made("/alerting/rules", rule);
  const indicator = { promql: { good: `count_over_time(${word}_metric[$window])`, total: `count_over_time(${word}_metric[$window])` } };
  const { id: sloId } = await admin.made("/alerting/slos", { name: `${word}-slo`, objective: 99, indicator });
  const endsAt = new Date(Date.now() + 3_600_000).toISOString();
  const other = [{ name: "other", value: word }];
  const { id: silenceId } = await admin.made("/alerting/silences", { matchers: other, endsAt, comment: `${word} is repaired` });
  return { channelId, routeId, ruleId, silenceId, sloId };
}

class Admin {
  readonly #apiUrl: string;
  readonly #bearer: string;

  constructor({ apiUrl }: Served, bearer: string) {
    this.#apiUrl = apiUrl;
    this.#bearer = bearer;
  }

  async send(method: string, path: string, body: object, headers?: Record<string, string>): Promise<Answer> {
    const answer = await call(method, `${this.#apiUrl}${path}`, { body, ...(headers ? { headers } : { bearer: this.#bearer }) });
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answer;
  }

  async made(path: string, body: object, headers?: Record<string, string>) {
    return (await this.send("POST", path, body, headers)).json;
  }
}

export async function sendTelemetry(served: Served, party: Pick<Party, "word" | "apiKey" | "traceId" | "records">): Promise<void> {
  const { word } = party;
  const pod = `k8s_cluster_name="${word}-cluster",k8s_namespace_name="${word}",k8s_pod_name="${word}-pod"`;
  const samples = [`${word}_metric{who="${word}",k8s_namespace_name="${word}",${word}_label="${word}"} 1`, `k8s_pod_phase{${pod}} 2`];
  await sendBody(served, party, "/ingest", samples.map((sample) => `${sample} ${Date.now()}\n`).join(""));
  await sendBody(served, party, "/ingest/logs/otlp", logsOf(party, `${word} says`, { service: `${word}-service`, count: party.records }));
  // Calls of a service that sends no spans itself, which make an edge of the map of services.
  const peer = [attribute("peer.service", `${word}-peer`)];
  const spans = Array.from({ length: party.records }, (_, at) => spanOf(party.traceId, at, word, { kind: 3, attributes: peer }));
  const shared = spanOf(SHARED_TRACE, party.records, word);
  await sendBody(served, party, "/ingest/traces", {
    resourceSpans: [
      { resource: resourceOf(word, `${word}-service`), scopeSpans: [{ spans }] },
      { resource: resourceOf(word, SHARED_SERVICE), scopeSpans: [{ spans: [shared] }] },
    ],
  });
}

async function sendBody(served: Served, { apiKey }: Pick<Party, "apiKey">, path: string, body: string | object): Promise<void> {
  const answer = await signedPost(served.apiUrl, path, apiKey, typeof body === "string" ? body : JSON.stringify(body));
  if (answer.status !== 204) throw new Error(`${path}: ${answer.status} ${answer.text}`);
}

/** One more log record, for those who follow. */
export async function sendRecord(served: Served, party: Party, message: string): Promise<void> {
  await sendBody(served, party, "/ingest/logs/otlp", logsOf(party, message, { service: `${party.word}-follow`, count: 1 }));
}

const nowNs = (): string => `${Date.now()}000000`;
const attribute = (key: string, value: string): object => ({ key, value: { stringValue: value } });
/** Of a service in the namespace with the name of the party. */
const resourceOf = (word: string, service: string): object => ({
  attributes: [attribute("service.name", service), attribute("k8s.namespace.name", word)],
});

function logsOf(
  { word, traceId }: Pick<Party, "word" | "traceId">,
  message: string,
  { service, count }: { service: string; count: number },
): object {
  const attributes = [attribute(SHARED_KEY, `${word}-value`), attribute(`${word}_key`, word)];
  const record = { timeUnixNano: nowNs(), severityText: `${word}level`, traceId, attributes, body: { stringValue: message } };
  const logRecords = Array.from({ length: count }, () => record);
  return { resourceLogs: [{ resource: resourceOf(word, service), scopeLogs: [{ logRecords }] }] };
}

function spanOf(traceId: string, at: number, word: string, { kind = 0, attributes = [] as object[] } = {}): object {
  const times = { startTimeUnixNano: nowNs(), endTimeUnixNano: nowNs() };
  const all = [attribute(SHARED_KEY, word), ...attributes];
  return { traceId, spanId: `${at + 1}`.padStart(16, "0"), name: `${word}-operation`, kind, attributes: all, ...times };
}
