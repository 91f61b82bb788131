// The clients of the matrix: one backend with embedded engines, two tenants, and all their credentials. Invariant: everything exists before
// the file's first test, but not when the cases are declared: a case reads a value only when it is sent.
import { randomUUID } from "node:crypto";
import { beforeAll } from "vitest";
import { backendOfFile } from "../../fixtures/backend-of-file.ts";
import { login, type Tenant } from "../../fixtures/backend-process.ts";
import { call } from "../../fixtures/processes.ts";

export const backend = backendOfFile({
  JWT_TTL: "2h",
  EVALUATION_INTERVAL: "1s",
  NOTIFY_ALLOWED_NETWORKS: "127.0.0.2",
  INGEST_TOKENS: "true",
});
export let operator: string;
export let red: Tenant;
export let blue: Tenant;
export let viewer: string;
/** The viewer's. */
export const reader = { email: "viewer@red.example", password: randomUUID() };
/** Read tokens of red and of blue. */
export let readTokens: [string, string];
/** An ingest token of red for every signal. */
export let ingestToken: string;
export let cluster: { id: string; key: string };
export let host: { id: string; key: string };

beforeAll(async () => {
  operator = await backend.operator();
  red = await backend.tenant("red");
  blue = await backend.tenant("blue");
  await call("POST", `${backend.apiUrl}/api/users`, { bearer: red.token, body: { ...reader, role: "viewer" } });
  viewer = await login(backend.apiUrl, reader.email, reader.password);
  readTokens = [await newReadToken(red), await newReadToken(blue)];
  ingestToken = await made(red, "/api/ingest-tokens", { name: "matrix" }, "token");
  cluster = await enrol("/api/clusters/register", { cluster_name: "north", cluster_uid: randomUUID(), agent_version: "1" }, "cluster_id");
  host = await enrol("/api/v1/agents/register", { hostname: "db-1", machine_id: randomUUID(), agent_version: "1" }, "agent_id");
});

export async function installToken(tenant = red): Promise<string> {
  return await backend.installToken(tenant.token);
}

async function enrol(path: string, body: object, idField: string): Promise<{ id: string; key: string }> {
  const headers = { "idempotency-key": randomUUID() };
  const answer = await call("POST", `${backend.apiUrl}${path}`, { bearer: await installToken(), body, headers });
  if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  return { id: answer.json[idField], key: answer.json.api_key };
}

export async function made(tenant: Tenant, path: string, body: object, idField: string): Promise<string> {
  const answer = await call("POST", `${backend.apiUrl}${path}`, { bearer: tenant.token, body });
  if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  return answer.json[idField];
}

export function newReadToken(tenant: Tenant, idField = "token"): Promise<string> {
  return made(tenant, "/api/read-tokens", { name: "matrix" }, idField);
}

/** What a browser's cookie must come with. */
export const ASKED = { "x-requested-with": "atherops" };

/** Returns the cookie of a new browser session of the viewer. */
export async function newCookie(): Promise<{ cookie: string }> {
  const answer = await call("POST", `${backend.apiUrl}/api/auth/session`, { body: reader });
  return { cookie: String(answer.headers.get("set-cookie")).split(";", 1)[0] ?? "" };
}
