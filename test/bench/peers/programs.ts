// The compared programs, each as a separate process with an empty folder, and how the same bodies are sent to each. Invariant: the records
// that the backend acknowledged are counted, so that they can be read back.
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { sign } from "../../../common/protocol/signature.ts";
import {
  adminPassword,
  type BackendPlace,
  engineAuthorization,
  login,
  makeTenant,
  startBackend,
  type Tenant,
} from "../../fixtures/backend-process.ts";
import { type LoneEngine, startEngine } from "../../fixtures/engine-insert.ts";
import { INGEST_PATHS, type LoadSignal } from "../../fixtures/otlp-load.ts";
import { call, eventually, type TestProcess } from "../../fixtures/processes.ts";
import { BULK, LOKI, OURS, STRAIGHT } from "./lines.ts";
import { type Body, send, type Sent, type Target } from "./load.ts";
import { type Loki, LOKI_PATH, startLoki } from "./loki.ts";
import type { Way } from "./turns.ts";

export const PEERS = ["loki", "bulk", "metrics", "write"] as const;
export type Peer = (typeof PEERS)[number];

const METRICS_PATH = "/ingest";
const WRITE_PATH = "/api/v1/write";
const BULK_ROWS = 10_000;
const COUNTED_WITHIN_MS = 60_000;

interface Started {
  readonly place: BackendPlace;
  readonly backend: TestProcess;
  readonly tenant: Tenant;
  readonly loki: Loki | undefined;
  readonly engine: LoneEngine | undefined;
}

export class Programs implements AsyncDisposable {
  readonly acknowledged: Record<LoadSignal, number> = { logs: 0, spans: 0 };
  readonly #started: Started;
  readonly #stack: AsyncDisposableStack;
  #lokiRecords = 0;

  private constructor(started: Started, stack: AsyncDisposableStack) {
    this.#started = started;
    this.#stack = stack;
  }

  /** Starts the programs that `peers` needs. */
  static async start(place: BackendPlace, folder: string, peers: readonly Peer[]): Promise<Programs> {
    await using stack = new AsyncDisposableStack();
    const backend = stack.use(await startBackend(place));
    const operator = await login(place.apiUrl, "admin@localhost", adminPassword(place));
    const tenant = await makeTenant(place.apiUrl, operator, "bench");
    const lone = join(folder, "lone");
    mkdirSync(lone);
    const loki = peers.includes("loki") ? stack.use(await startLoki(join(folder, "loki"))) : undefined;
    const engine = peers.includes("bulk") ? stack.use(await startEngine(lone)) : undefined;
    return new Programs({ place, backend, tenant, loki, engine }, stack.move());
  }

  otlp(signal: LoadSignal, bodies: readonly Body[]): Way[] {
    const { loki, engine } = this.#started;
    const ours = async (ms: number): Promise<Sent> => {
      const sent = await send(this.#signed(INGEST_PATHS[signal], "application/json"), bodies, ms);
      this.acknowledged[signal] += sent.records;
      return sent;
    };
    const ways: Way[] = [{ name: OURS, pid: this.#pid, run: ours }];
    if (loki && signal === "logs") ways.push({ name: LOKI, pid: loki.pid, run: (ms) => this.#toLoki(loki, bodies, ms) });
    if (engine) {
      const bulk = async (ms: number): Promise<Sent> => {
        const { rows, ms: tookMs } = await engine.insert(signal, BULK_ROWS, ms);
        return { records: rows, ms: tookMs, answeredMs: [] };
      };
      ways.push({ name: BULK, pid: engine.pid, run: bulk });
    }
    return ways;
  }

  /** Through the backend, and to the engine below it with the labels that the backend gives. */
  metrics(bodies: readonly Body[]): Way[] {
    return this.#nextToEngine("/api/v1/import/prometheus", this.#signed(METRICS_PATH, "text/plain"), bodies);
  }

  /** The same by remote write, with an ingest token. Bodies take seconds to make, after which an idle connection is closed. */
  async writes(makeBodies: () => readonly Body[]): Promise<Way[]> {
    const { place, tenant } = this.#started;
    const answer = await call("POST", `${place.apiUrl}/api/ingest-tokens`, { bearer: tenant.token, body: { name: "bench" } });
    const headers = { "x-api-key": String(answer.json.token), "content-type": "application/x-protobuf", "content-encoding": "snappy" };
    return this.#nextToEngine(WRITE_PATH, { url: place.apiUrl, path: WRITE_PATH, headers: () => headers }, makeBodies());
  }

  #nextToEngine(path: string, ours: Target, bodies: readonly Body[]): Way[] {
    const { place, tenant } = this.#started;
    const engine = JSON.parse(readFileSync(join(place.dataDir, "victoria-metrics.pid"), "utf8")) as { pid: number; commandLine: string };
    const labels = [`org_id=${tenant.orgId}`, `host_id=${tenant.keyId}`, "node=straight"].map((label) => `extra_label=${label}`).join("&");
    const straight: Target = {
      url: `http://${/-httpListenAddr=([\d.:]+)/.exec(engine.commandLine)?.[1]}`,
      path: `${path}?${labels}`,
      headers: () => ({ authorization: engineAuthorization(place) }),
    };
    return [
      { name: OURS, pid: this.#pid, run: (ms) => send(ours, bodies, ms) },
      { name: STRAIGHT, pid: engine.pid, run: (ms) => send(straight, bodies, ms) },
    ];
  }

  /** A peer that drops what it answers with success is none. */
  async checkLoki(): Promise<void> {
    const { loki } = this.#started;
    if (!loki) return;
    const sent = this.#lokiRecords;
    await eventually(`Loki has the ${sent} records that it took`, async () => (await loki.count()) === sent, COUNTED_WITHIN_MS);
  }

  get #pid(): number {
    return this.#started.backend.child.pid ?? 0;
  }

  #signed(path: string, type: string): Target {
    const { place, tenant } = this.#started;
    return { url: place.apiUrl, path, headers: () => ({ ...sign(tenant.apiKey, "POST", path, Date.now() / 1000), "content-type": type }) };
  }

  async #toLoki({ url }: Loki, bodies: readonly Body[], ms: number): Promise<Sent> {
    const sent = await send({ url, path: LOKI_PATH, headers: () => ({ "content-type": "application/json" }) }, bodies, ms);
    this.#lokiRecords += sent.records;
    return sent;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}
