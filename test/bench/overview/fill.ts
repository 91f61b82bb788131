// Creates a large organisation for the benchmark `overview`: clusters with many nodes, services with spans of two hours, and log records.
// Afterwards its senders continue, so that the figures of the overview change while it is open.
import { randomUUID } from "node:crypto";
import { sign } from "../../../common/protocol/signature.ts";
import { call, signedPost } from "../../fixtures/processes.ts";
import { INGEST_PATHS } from "../../fixtures/otlp-load.ts";
import { batch } from "../questions/records.ts";

const NODES_PER_CLUSTER = 50;
const SENDERS = 8;
const BATCH_RECORDS = 1000;
const HOUR_MS = 3_600_000;
const JSON_TYPE = { "content-type": "application/json" };

export interface Size {
  readonly services: number;
  readonly nodes: number;
  readonly records: number;
}

interface Cluster {
  readonly key: string;
  readonly nodes: readonly string[];
}

export class LargeOrganisation {
  readonly #apiUrl: string;
  readonly #size: Size;
  #clusters: Cluster[] = [];

  constructor(apiUrl: string, size: Size) {
    this.#apiUrl = apiUrl;
    this.#size = size;
  }

  /** `installToken`: makes an install token of the organisation. */
  async fill(installToken: () => Promise<string>): Promise<void> {
    for (let first = 0; first < this.#size.nodes; first += NODES_PER_CLUSTER) {
      const number = first / NODES_PER_CLUSTER;
      const { status, json, text } = await call("POST", `${this.#apiUrl}/api/clusters/register`, {
        bearer: await installToken(),
        headers: { "idempotency-key": randomUUID() },
        body: { cluster_name: `cluster-${number}`, cluster_uid: randomUUID(), agent_version: "0.1.0" },
      });
      if (status !== 201) throw new Error(`register: ${status} ${text}`);
      const nodes = Array.from({ length: Math.min(NODES_PER_CLUSTER, this.#size.nodes - first) }, (_, at) => `node-${first + at}`);
      this.#clusters.push({ key: json.api_key as string, nodes });
    }
    await this.sendHeartbeats();
    for (let minute = 120; minute > 0; minute -= 1) await this.sendSpans(Date.now() - minute * 60_000);
    await this.#sendRecords();
  }

  /** Sends heartbeats of all nodes except one in a hundred, which stay silent. */
  async sendHeartbeats(): Promise<void> {
    const beats = this.#clusters.flatMap(({ key, nodes }) => nodes.map((node) => ({ key, node })));
    await inTurns(beats.length, async (at) => {
      const { key = "", node = "" } = beats[at] ?? {};
      if (at % 100 === 99 && at > 200) return;
      const body = { node, agent_version: "0.1.0", collector: { state: at % 70 === 3 ? "failed" : "running", restarts: 0 } };
      await call("POST", `${this.#apiUrl}/heartbeat`, { body, headers: sign(key, "POST", "/heartbeat", Date.now() / 1000) });
    });
  }

  /** One call of each service at about that time; of one service in ten, one call in four fails. */
  async sendSpans(atMs: number): Promise<void> {
    const resourceSpans = Array.from({ length: this.#size.services }, (_, at) => {
      const startMs = atMs + ((at * 37) % 50_000);
      const isFailed = at % 10 === 0 && Math.floor(startMs / 60_000) % 4 === 0;
      const span = {
        traceId: randomUUID().replaceAll("-", ""),
        spanId: randomUUID().replaceAll("-", "").slice(16),
        name: `GET /${at}`,
        kind: 2,
        startTimeUnixNano: `${startMs}000000`,
        endTimeUnixNano: `${startMs + 20 + ((at * 13 + Math.floor(startMs / 60_000)) % 200)}000000`,
        ...(isFailed && { status: { code: 2 } }),
      };
      const attributes = [{ key: "service.name", value: { stringValue: `service-${at}` } }];
      return { resource: { attributes }, scopeSpans: [{ spans: [span] }] };
    });
    await this.#send(INGEST_PATHS.spans, JSON.stringify({ resourceSpans }));
  }

  async #sendRecords(): Promise<void> {
    const { records } = this.#size;
    const startNs = BigInt(Date.now() - HOUR_MS) * 1_000_000n;
    const stepNs = records === 0 ? 0n : BigInt(Math.floor((HOUR_MS * 1e6) / records));
    await inTurns(Math.ceil(records / BATCH_RECORDS), async (at) => {
      const first = at * BATCH_RECORDS;
      const numbers = Array.from({ length: Math.min(BATCH_RECORDS, records - first) }, (_, index) => first + index);
      await this.#send(INGEST_PATHS.logs, batch("short", numbers, (n) => startNs + BigInt(n) * stepNs, 0).json());
    });
  }

  async #send(path: string, body: string | Buffer): Promise<void> {
    const answer = await signedPost(this.#apiUrl, path, this.#clusters[0]?.key ?? "", body, JSON_TYPE);
    if (answer.status !== 204) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  }
}

/** Some at one time. */
async function inTurns(count: number, work: (at: number) => Promise<void>): Promise<void> {
  let next = 0;
  const sender = async (): Promise<void> => {
    for (let at = next++; at < count; at = next++) await work(at);
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
}
