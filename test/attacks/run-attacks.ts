// Runs one scenario: a backend within its memory limit, two tenants, the attacks of one of them, and how the other fares. Invariant:
// everything that is started here is ended here.
import { fork, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { adminPassword, type BackendPlace, backendPlace, login, makeTenant } from "../fixtures/backend-process.ts";
import { call, eventually, freePorts, temporaryFolder } from "../fixtures/processes.ts";
import type { Target } from "./attack.ts";
import type { FromAttacker, Orders, ToAttacker } from "./attacker.ts";
import { Evaluations, type EvaluationCounts } from "./evaluations.ts";
import { GoodTenant, type Fared } from "./good-tenant.ts";
import { Pod, type PodCounts } from "./pod.ts";

export interface RunOptions {
  readonly checkout: string;
  readonly attacks: readonly string[];
  /** See Orders. */
  readonly oneAtATime?: boolean | undefined;
  readonly seconds: number;
  readonly limitMib: number;
  readonly cpuProfDir?: string | undefined;
}

export interface RunResult {
  readonly attacks: readonly string[];
  readonly seconds: number;
  readonly fared: Record<string, Fared>;
  readonly evaluations: EvaluationCounts;
  /** Number of responses with the rule's status that reported a failed evaluation. */
  readonly failedEvaluations: number;
  readonly pod: PodCounts;
  readonly unlimited?: string | undefined;
  /** By attack, how often each answer came. */
  readonly answers: Record<string, Record<string, number>>;
}

const INTERVAL_MS = 5000;
const RULES = 20;
const SETTLING_MS = 2000;
const EMAIL = "viewer@good.example";

export async function run({ checkout, attacks, oneAtATime, seconds, limitMib, cpuProfDir }: RunOptions): Promise<RunResult> {
  using folder = temporaryFolder();
  await using evaluations = await Evaluations.listen();
  const [grpcPort] = await freePorts(1);
  const place = await backendPlace(folder.path, {
    OTLP_GRPC_LISTEN: `127.0.0.1:${grpcPort}`,
    ALERTMANAGER_URL: evaluations.url,
    EVALUATION_INTERVAL: `${INTERVAL_MS}ms`,
    INGEST_TOKENS: "true",
    JWT_TTL: "2h",
  });
  await using pod = await Pod.start({ place, checkout, limitBytes: limitMib * 1024 * 1024, cpuProfDir });
  const { apiUrl } = place;
  const operator = await login(apiUrl, "admin@localhost", adminPassword(place));
  const good = await makeTenant(apiUrl, operator, "good");
  const password = `${randomUUID()}-A1`;
  await asked(call("POST", `${apiUrl}/api/users`, { bearer: good.token, body: { email: EMAIL, password, role: "viewer" } }));
  const target = await targetOf(place, operator, `http://127.0.0.1:${grpcPort}`);
  await using attacker = new AttackerProcess();
  await attacker.prepare({ target, attacks, oneAtATime });
  const ruleIds = await makeRules(apiUrl, good.token);
  await using tenant = new GoodTenant({
    apiUrl,
    healthUrl: place.healthUrl,
    token: good.token,
    apiKey: good.apiKey,
    email: EMAIL,
    password,
    ruleId: ruleIds[0] ?? "",
  });
  await eventually("each rule's alert has come", async () => evaluations.haveCome(ruleIds));
  await sleep(SETTLING_MS);
  pod.keep();
  tenant.measureFromNow();
  const fromMs = performance.now();
  attacker.begin();
  await sleep(seconds * 1000);
  const toMs = performance.now();
  const answers = await attacker.end();
  const counts = await pod.settle();
  const fared = await tenant.finish();
  return {
    attacks,
    seconds,
    fared,
    evaluations: evaluations.counts(ruleIds, INTERVAL_MS, fromMs, toMs),
    failedEvaluations: tenant.failedEvaluations,
    pod: counts,
    unlimited: pod.unlimited,
    answers,
  };
}

async function asked(answer: ReturnType<typeof call>): ReturnType<typeof call> {
  const { status, text } = await answer;
  if (status >= 300) throw new Error(`${status} ${text}`);
  return await answer;
}

/** An organisation with an administrator, a viewer, a key for direct ingest and one of a cluster. */
async function targetOf({ apiUrl, healthUrl }: BackendPlace, operatorToken: string, grpcUrl: string): Promise<Target> {
  const attacker = await makeTenant(apiUrl, operatorToken, "attacker");
  const [email, password] = ["viewer@attacker.example", `${randomUUID()}-A1`];
  const post = (path: string, body: object) => asked(call("POST", apiUrl + path, { bearer: attacker.token, body }));
  await post("/api/users", { email, password, role: "viewer" });
  const { json: install } = await post("/api/install-tokens", {});
  const registered = await asked(
    call("POST", `${apiUrl}/api/clusters/register`, {
      bearer: install.token,
      headers: { "idempotency-key": randomUUID() },
      body: { cluster_name: "attacker", cluster_uid: randomUUID(), agent_version: "1" },
    }),
  );
  return {
    apiUrl,
    healthUrl,
    grpcUrl,
    adminToken: attacker.token,
    viewerToken: await login(apiUrl, email, password),
    apiKey: attacker.apiKey,
    ingestToken: (await post("/api/ingest-tokens", { name: "attacker" })).json.token,
    clusterKey: registered.json.api_key,
  };
}

/** Rules that always fire. */
async function makeRules(apiUrl: string, bearer: string): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < RULES; index += 1) {
    const body = { name: `always ${index}`, severity: "info", expr: `last_over_time(good_metric{item="${index % 10}"}[1h]) > 0` };
    ids.push((await asked(call("POST", `${apiUrl}/alerting/rules`, { bearer, body }))).json.id);
  }
  return ids;
}

class AttackerProcess implements AsyncDisposable {
  readonly #child: ChildProcess = fork(join(import.meta.dirname, "attacker.ts"));
  readonly #exit = once(this.#child, "exit");

  async prepare(orders: Orders): Promise<void> {
    this.#order({ prepare: orders });
    await this.#next();
  }

  begin(): void {
    this.#order("begin");
  }

  async end(): Promise<Record<string, Record<string, number>>> {
    this.#order("end");
    const message = await this.#next();
    if (message === "prepared") throw new Error("prepared twice");
    return message.answers;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exit;
  }

  #order(message: ToAttacker): void {
    this.#child.send(message);
  }

  async #next(): Promise<FromAttacker> {
    const ended = this.#exit.then(() => {
      throw new Error("the attacker has ended");
    });
    const [message] = (await Promise.race([once(this.#child, "message"), ended])) as [FromAttacker];
    return message;
  }
}
