// Lists every route of docs/openapi.json that changes a resource, and how an administrator tries it on a resource of another organisation.
// Each attempt uses a new resource, and its owner then sends the same request successfully, which proves that the refused request was
// valid.
import { randomUUID } from "node:crypto";
import { sign } from "../../../common/protocol/signature.ts";
import { type Answer, call } from "../../fixtures/processes.ts";
import { issuerOf, type Party, type Served } from "./parties.ts";

export interface Change {
  /** As in docs/openapi.json. */
  readonly route: string;
  /** Creates a resource of the owner, whose id or name the attempt uses. */
  readonly make: (served: Served, owner: Party) => Promise<string>;
  readonly body?: (id: string) => object;
  /** Unset: the session of the party that asks, with the id in place of `{id}`. */
  readonly send?: (served: Served, asker: Party, id: string) => Promise<Answer>;
  /** The answers to the other organisation and to the owner; `owner` unset: for operators only. */
  readonly foreign: number;
  readonly owner?: number;
}

/** What an organisation has, for a comparison. */
const LISTS = [
  ...["channels", "routes", "rules", "silences", "slos"].map((list) => `/alerting/${list}`),
  ...[
    "clusters",
    "dashboards",
    "ingest-tokens",
    "install-tokens",
    "invitations",
    "issuers",
    "keys",
    "limits",
    "read-tokens",
    "users",
    "v1/agents",
    "views",
  ].map((list) => `/api/${list}`),
];

/** Resolves to what is wrong: the other organisation's request was not refused, or it changed something, or the owner's is refused too. */
export async function problemsOfChange(served: Served, change: Change, owner: Party, asker: Party): Promise<string[]> {
  const id = await change.make(served, owner);
  const before = await listsOf(served, owner);
  const refused = await attempt(served, change, asker, id);
  const after = await listsOf(served, owner);
  const problems = [];
  if (refused.status !== change.foreign) problems.push(`${asker.word} ${change.route}: ${refused.status} instead of ${change.foreign}`);
  for (const [at, path] of LISTS.entries()) if (after[at] !== before[at]) problems.push(`${asker.word} ${change.route}: changed ${path}`);
  // After a change by another organisation as well: what it has changed names it, and would look like its own data in lists.
  const own = change.owner === undefined ? undefined : await attempt(served, change, owner, id);
  if (problems.length > 0 || !own) return problems;
  return own.status === change.owner ? [] : [`the owner, ${change.route}: ${own.status} instead of ${change.owner} ${own.text}`];
}

async function attempt(served: Served, change: Change, asker: Party, id: string): Promise<Answer> {
  if (change.send) return await change.send(served, asker, id);
  const [method = "", path = ""] = change.route.replace("{id}", id).split(" ");
  return await call(method, `${served.apiUrl}${path}`, { bearer: asker.token, body: change.body?.(id) });
}

/** A browser's session: its cookie, and the user that a page was loaded for. */
export interface BrowserUser {
  readonly cookie: string;
  readonly user: string;
}

/** Resolves to what is wrong: a request of a page that was loaded for one of `others` was not refused, changed something, or is invalid. */
export async function problemsOfSession(
  served: Served,
  route: string,
  { owner, session, others }: { readonly owner: Party; readonly session: BrowserUser; readonly others: readonly string[] },
): Promise<string[]> {
  const change = CHANGES.find((each) => each.route === route && each.owner !== undefined && each.send === undefined);
  const id = (await change?.make(served, owner)) ?? randomUUID();
  const [method = "", path = ""] = route.replace("{id}", id).split(" ");
  const create = method === "POST" ? (CREATED as Record<string, () => object>)[path] : undefined;
  const body = method === "DELETE" ? undefined : (change?.body?.(id) ?? create?.() ?? {});
  const send = async (user: string): Promise<Answer> => {
    const headers = { cookie: session.cookie, "x-requested-with": "atherops", "x-session-user": user };
    return await call(method, `${served.apiUrl}${path}`, { headers, body });
  };
  const before = await listsOf(served, owner);
  const refused = await Promise.all(others.map(send));
  const after = await listsOf(served, owner);
  const problems = refused.flatMap(({ status, json }) =>
    json?.error === "session_changed" && status === 409 ? [] : [`${route}: ${status}`],
  );
  for (const [at, list] of LISTS.entries()) if (after[at] !== before[at]) problems.push(`${route}: changed ${list}`);
  const own = change || create ? await send(session.user) : undefined;
  if (own && own.status !== (change?.owner ?? 201)) problems.push(`${route}: ${own.status} for the same session: ${own.text}`);
  return problems;
}

/** An agent without heartbeats becomes offline after some time. */
const BY_TIME = /"online":\w+,/g;

async function listsOf({ apiUrl }: Served, { token }: Party): Promise<string[]> {
  const lists = LISTS.map(async (list) => (await call("GET", `${apiUrl}${list}`, { bearer: token })).text);
  return (await Promise.all(lists)).map((text) => text.replaceAll(BY_TIME, ""));
}

async function made(served: Served, { token }: Party, path: string, body: object, field = "id"): Promise<string> {
  const answer = await call("POST", `${served.apiUrl}${path}`, { bearer: token, body });
  if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  return answer.json[field];
}

type Make = Change["make"];
const making =
  (path: keyof typeof CREATED, field?: string): Make =>
  async (served, owner) =>
    await made(served, owner, path, CREATED[path](), field);

const name = (): string => `changed-${randomUUID()}`;
const channel = (): object => ({ name: name(), kind: "webhook", settings: { url: `https://127.0.0.2:1/${randomUUID()}` } });
const rule = (): object => ({ name: name(), severity: "warning", expr: "up == 0", enabled: false });
const route = (): object => ({ matchers: [{ label: "alertname", op: "=", value: name() }] });
const silence = (): object => ({
  matchers: [{ name: "alertname", value: name() }],
  endsAt: new Date(Date.now() + 3_600_000).toISOString(),
  comment: "being repaired",
});
const invited = (): object => ({ email: `${randomUUID()}@changed.example`, role: "viewer" });
const orgAdmin = () => ({ email: `${randomUUID()}@changed.example`, password: randomUUID() });
const user = () => ({ ...orgAdmin(), role: "viewer" });

interface Enrolment {
  readonly path: string;
  readonly identity: (machine: string) => object;
  readonly field: string;
}
const HOSTS: Enrolment = {
  path: "/api/v1/agents/register",
  identity: (machine) => ({ hostname: machine, machine_id: machine }),
  field: "agent_id",
};
const CLUSTERS: Enrolment = {
  path: "/api/clusters/register",
  identity: (machine) => ({ cluster_name: machine, cluster_uid: machine }),
  field: "cluster_id",
};

async function enrol({ path, identity }: Enrolment, served: Served, party: Party, machine: string): Promise<Answer> {
  const bearer = await made(served, party, "/api/install-tokens", {}, "token");
  const headers = { "idempotency-key": randomUUID() };
  return await call("POST", `${served.apiUrl}${path}`, { bearer, headers, body: { ...identity(machine), agent_version: "1" } });
}

const enrolled =
  (enrolment: Enrolment): Make =>
  async (served, owner) =>
    (await enrol(enrolment, served, owner, name())).json[enrolment.field];

/** The machine or the cluster that the owner has, enrolled with the other organisation's token: a second one, of that organisation. */
function enrolledTwice(enrolment: Enrolment): Omit<Change, "owner"> {
  const make: Make = async (served, owner) => {
    const machine = name();
    await enrol(enrolment, served, owner, machine);
    return machine;
  };
  const send = async (served: Served, asker: Party, machine: string): Promise<Answer> => await enrol(enrolment, served, asker, machine);
  return { route: `POST ${enrolment.path}`, make, send, foreign: 201 };
}

/** The other organisation's agent names the owner's node. */
function beats(enrolment: Enrolment, path: string): Omit<Change, "owner"> {
  const make: Make = async (served, owner) => {
    const machine = name();
    const { json } = await enrol(enrolment, served, owner, machine);
    await beat(served, path, json.api_key, machine);
    return machine;
  };
  const send = async (served: Served, asker: Party, machine: string): Promise<Answer> => {
    const answer = await enrol(enrolment, served, asker, machine);
    return answer.status === 201 ? await beat(served, path, answer.json.api_key, machine) : answer;
  };
  return { route: `POST ${path}`, make, send, foreign: 204 };
}

async function beat({ apiUrl }: Served, path: string, key: string, node: string): Promise<Answer> {
  const body = { node, agent_version: "2", collector: { state: "running", restarts: 0, last_error: "" } };
  return await call("POST", `${apiUrl}${path}`, { body, headers: sign(key, "POST", path, Date.now() / 1000) });
}

const dashboard = (): object => ({ name: name(), description: "", variables: [], panels: [] });
const view = (): object => ({ name: name(), address: "#/logs" });
const slo = (): object => ({ name: name(), objective: 99.9, indicator: { availability: { service: "checkout" } } });
const inhibitRule = (): object => ({
  name: name(),
  source_matchers: [{ label: "alertname", op: "=", value: "ClusterDown" }],
  target_matchers: [{ label: "alertname", op: "=", value: "NodeDown" }],
});
const timeInterval = (): object => ({ name: name(), time_intervals: [{ weekdays: ["sunday"] }] });
const named = (): object => ({ name: name() });

/** A valid body of each route that creates something for an administrator. */
export const CREATED = {
  "/alerting/channels": channel,
  "/alerting/inhibit-rules": inhibitRule,
  "/alerting/routes": route,
  "/alerting/rules": rule,
  "/alerting/silences": silence,
  "/alerting/slos": slo,
  "/alerting/time-intervals": timeInterval,
  "/api/dashboards": dashboard,
  "/api/ingest-tokens": named,
  "/api/install-tokens": () => ({}),
  "/api/invitations": invited,
  "/api/issuers": () => issuerOf(name()),
  "/api/keys": named,
  "/api/read-tokens": named,
  "/api/users": user,
  "/api/views": view,
};
const newDashboard = making("/api/dashboards");
const newView = making("/api/views");
const newChannel = making("/alerting/channels");
const newIngestToken = making("/api/ingest-tokens");
const newIssuer = making("/api/issuers");
const newRoute = making("/alerting/routes");
const newRule = making("/alerting/rules");
const newInhibitRule = making("/alerting/inhibit-rules");
const newTimeInterval = making("/alerting/time-intervals");
const newSilence = making("/alerting/silences");
const newSlo = making("/alerting/slos");
const newUser = making("/api/users", "user_id");
const organisation: Make = async (_served, { orgId }) => orgId;

const SILENCES = "/alerting/alertmanager/api/v2/silences";

export const CHANGES: readonly Change[] = [
  { route: "DELETE /alerting/alertmanager/api/v2/silence/{id}", make: newSilence, foreign: 404, owner: 200 },
  { route: `POST ${SILENCES}`, make: newSilence, body: (id) => ({ ...silence(), id }), foreign: 404, owner: 200 },
  { route: "DELETE /alerting/channels/{id}", make: newChannel, foreign: 404, owner: 204 },
  { route: "PUT /alerting/channels/{id}", make: newChannel, body: channel, foreign: 404, owner: 200 },
  { route: "POST /alerting/channels/{id}/rotate", make: newChannel, foreign: 404, owner: 200 },
  { route: "POST /alerting/channels/{id}/test", make: newChannel, foreign: 404, owner: 200 },
  { route: "POST /alerting/routes", make: newChannel, body: (id) => ({ ...route(), channel_ids: [id] }), foreign: 400, owner: 201 },
  { route: "DELETE /alerting/routes/{id}", make: newRoute, foreign: 404, owner: 204 },
  { route: "PUT /alerting/routes/{id}", make: newRoute, body: route, foreign: 404, owner: 200 },
  { route: "DELETE /alerting/rules/{id}", make: newRule, foreign: 404, owner: 204 },
  { route: "PUT /alerting/rules/{id}", make: newRule, body: rule, foreign: 404, owner: 200 },
  { route: "DELETE /alerting/inhibit-rules/{id}", make: newInhibitRule, foreign: 404, owner: 204 },
  { route: "PUT /alerting/inhibit-rules/{id}", make: newInhibitRule, body: inhibitRule, foreign: 404, owner: 200 },
  { route: "DELETE /alerting/time-intervals/{id}", make: newTimeInterval, foreign: 404, owner: 204 },
  { route: "PUT /alerting/time-intervals/{id}", make: newTimeInterval, body: timeInterval, foreign: 404, owner: 200 },
  { route: "DELETE /alerting/silences/{id}", make: newSilence, foreign: 404, owner: 204 },
  { route: "DELETE /alerting/slos/{id}", make: newSlo, foreign: 404, owner: 204 },
  { route: "PUT /alerting/slos/{id}", make: newSlo, body: slo, foreign: 404, owner: 200 },
  { route: "DELETE /api/accounts/{id}", make: newUser, foreign: 403 },
  {
    route: "PUT /api/clusters/{id}/config",
    make: enrolled(CLUSTERS),
    body: () => ({ config: { log_level: "warn" } }),
    foreign: 404,
    owner: 200,
  },
  { route: "DELETE /api/clusters/{id}", make: enrolled(CLUSTERS), foreign: 404, owner: 204 },
  { route: "DELETE /api/dashboards/{id}", make: newDashboard, foreign: 404, owner: 204 },
  { route: "PUT /api/dashboards/{id}", make: newDashboard, body: dashboard, foreign: 404, owner: 200 },
  { route: "DELETE /api/views/{id}", make: newView, foreign: 404, owner: 204 },
  { route: "PUT /api/views/{id}", make: newView, body: view, foreign: 404, owner: 200 },
  { route: "DELETE /api/ingest-tokens/{id}", make: newIngestToken, foreign: 404, owner: 204 },
  { route: "POST /api/ingest-tokens/{id}/rotate", make: newIngestToken, foreign: 404, owner: 200 },
  { route: "DELETE /api/install-tokens/{id}", make: making("/api/install-tokens"), foreign: 404, owner: 204 },
  { route: "DELETE /api/issuers/{id}", make: newIssuer, foreign: 404, owner: 204 },
  { route: "PUT /api/issuers/{id}", make: newIssuer, body: () => issuerOf(name()), foreign: 404, owner: 200 },
  { route: "DELETE /api/keys/{id}", make: making("/api/keys", "key_id"), foreign: 404, owner: 204 },
  { route: "DELETE /api/invitations/{id}", make: making("/api/invitations", "invitation_id"), foreign: 404, owner: 204 },
  { route: "POST /api/orgs/{id}/admins", make: organisation, body: orgAdmin, foreign: 403 },
  { route: "DELETE /api/orgs/{id}", make: organisation, foreign: 403 },
  { route: "PUT /api/orgs/{id}/retention", make: organisation, body: () => ({ logs_days: 1 }), foreign: 403 },
  { route: "PUT /api/orgs/{id}/limits", make: organisation, body: () => ({ bytes_per_second: 1 }), foreign: 403 },
  { route: "DELETE /api/read-tokens/{id}", make: making("/api/read-tokens"), foreign: 404, owner: 204 },
  { route: "DELETE /api/users/{id}", make: newUser, foreign: 404, owner: 204 },
  {
    route: "PUT /api/users/{id}/label-limits",
    make: newUser,
    body: () => ({ label_limits: { source: ["cart"] } }),
    foreign: 404,
    owner: 200,
  },
  { route: "PUT /api/users/{id}/password", make: newUser, body: () => ({ password: randomUUID() }), foreign: 404, owner: 204 },
  { route: "PUT /api/users/{id}/role", make: newUser, body: () => ({ role: "admin" }), foreign: 404, owner: 200 },
  { route: "DELETE /api/v1/agents/{id}", make: enrolled(HOSTS), foreign: 404, owner: 204 },
  { route: "PUT /api/v1/agents/{id}/config", make: enrolled(HOSTS), body: () => ({ log_level: "warn" }), foreign: 404, owner: 200 },
  {
    route: "POST /api/users",
    make: async ({ apiUrl }, { token }) => {
      const body = user();
      await call("POST", `${apiUrl}/api/users`, { bearer: token, body });
      return body.email;
    },
    body: (email) => ({ ...user(), email }),
    foreign: 409,
    owner: 409,
  },
  enrolledTwice(CLUSTERS),
  enrolledTwice(HOSTS),
  beats(CLUSTERS, "/heartbeat"),
  beats(HOSTS, "/ingest/agents/heartbeat"),
];
