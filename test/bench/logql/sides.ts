// Runs a real Loki and the backend's Loki API with the same records, and returns the result of each for a query in a common form.
// Invariant: only labels that one of them adds to every record are left out of its results.
import { logRecord, stringAttribute } from "../../../backend/ingest/otlp/otlp-body.fixture.ts";
import { type LokiApp, type LokiOrg, openLokiApp } from "../../fixtures/loki-app.ts";
import { type Loki, startLoki } from "../peers/loki.ts";
import type { DocumentRecord } from "./records.ts";

export interface Answer {
  /** Why the query is refused; undefined if it has a result. */
  readonly refusal?: string;
  /** Entries or points by labels. */
  readonly found: ReadonlyMap<string, readonly (readonly [at: string, value: string])[]>;
}

export type Parameters = Record<string, string>;

export interface Side {
  ask(path: "query" | "query_range", params: Parameters): Promise<Answer>;
}

/** Value of labels that are not compared: the backend's from the severity, Loki's from structured metadata. */
const MARK = "zz";
/** Further labels that only the backend adds. */
const ONLY_OURS = new Set(["host_id", "node"]);
/** Not compared, because each program words it differently. */
const DETAILS = "__error_details__";
const BODY_RECORDS = 500;
const QUERY_WITHIN_MS = 60_000;
const LOKI_ARGUMENTS = ["-validation.discover-log-levels=false"];
/** The label that Loki takes for the name of a service: the first of them. */
const SERVICE_LABELS = (
  "service_name service app application app_name name app_kubernetes_io_name container container_name k8s_container_name component " +
  "workload job k8s_job_name"
).split(" ");

interface Series {
  readonly metric?: Record<string, string>;
  readonly stream?: Record<string, string>;
  readonly value?: [number, string];
  readonly values?: [number | string, string][];
}

type Data =
  | { readonly resultType: "scalar"; readonly result: readonly [number, string] }
  | { readonly resultType: "matrix" | "streams" | "vector"; readonly result: readonly Series[] };

export class Sides implements AsyncDisposable {
  readonly ours: Side;
  readonly theirs: Side;
  readonly #stack: AsyncDisposableStack;
  readonly #loki: Loki;
  readonly #org: LokiOrg;

  private constructor(loki: Loki, org: LokiOrg, stack: AsyncDisposableStack) {
    this.#stack = stack;
    this.#loki = loki;
    this.#org = org;
    this.ours = {
      async ask(path, params) {
        const answer = await org.get(path, params);
        return answer.statusCode === 200
          ? read(answer.json().data as Data)
          : { refusal: answer.json().message as string, found: new Map() };
      },
    };
    this.theirs = {
      async ask(path, params) {
        const answer = await fromLoki(loki, path, params);
        const text = await answer.text();
        return answer.ok ? read((JSON.parse(text) as { data: Data }).data) : { refusal: text.trim(), found: new Map() };
      },
    };
  }

  static async start(folder: string): Promise<Sides> {
    await using stack = new AsyncDisposableStack();
    const loki = stack.use(await startLoki(folder, LOKI_ARGUMENTS));
    const app: LokiApp = stack.use(await openLokiApp());
    return new Sides(loki, await app.org(), stack.move());
  }

  /** Whether Loki can read it. */
  async isLogql(query: string): Promise<boolean> {
    return (await fromLoki(this.#loki, "format_query", { query })).ok;
  }

  async load(records: readonly DocumentRecord[]): Promise<void> {
    for (let from = 0; from < records.length; from += BODY_RECORDS) {
      const part = records.slice(from, from + BODY_RECORDS);
      await push(this.#loki, part);
      // Each request has the records of one service, which is not an attribute of a record here.
      for (const [service, own] of Map.groupBy(part, serviceOf)) await this.#send(service, own);
    }
  }

  async #send(service: string, records: readonly DocumentRecord[]): Promise<void> {
    const body = records.map(({ labels, timeNs, line }) => {
      const attributes = Object.entries(labels).flatMap(([name, value]) => (name === "service_name" ? [] : [stringAttribute(name, value)]));
      return logRecord(timeNs, line, { severityText: MARK, attributes });
    });
    await this.#org.send(body, service);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

function serviceOf({ labels }: DocumentRecord): string {
  const name = SERVICE_LABELS.find((one) => labels[one] !== undefined);
  return name === undefined ? "unknown_service" : (labels[name] as string);
}

async function fromLoki(loki: Loki, path: string, params: Parameters): Promise<Response> {
  const query = new URLSearchParams(params).toString();
  return await fetch(`${loki.url}/loki/api/v1/${path}?${query}`, { signal: AbortSignal.timeout(QUERY_WITHIN_MS) });
}

async function push(loki: Loki, records: readonly DocumentRecord[]): Promise<void> {
  const streams = [...Map.groupBy(records, ({ labels }) => labels)].map(([stream, own]) => ({
    stream,
    // Some metadata, which every record has by default: without any Loki drops details of errors along with the errors.
    values: own.map(({ timeNs, line }) => [String(timeNs), line, { [MARK]: MARK }]),
  }));
  const answer = await fetch(`${loki.url}/loki/api/v1/push`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ streams }),
  });
  if (!answer.ok) throw new Error(`Loki refuses records: ${answer.status} ${await answer.text()}`);
}

function read({ resultType, result }: Data): Answer {
  // Loki 3.7 adds a time that the query did not ask for.
  if (resultType === "scalar") return { found: new Map([["[]", [["", result[1]]]]]) };
  const found = new Map<string, [string, string][]>();
  for (const { metric, stream, value, values = value ? [value] : [] } of result) {
    const key = keyOf(metric ?? stream ?? {});
    const points = found.get(key) ?? [];
    found.set(key, points);
    for (const [at, text] of values) points.push([String(at), text]);
  }
  for (const points of found.values()) points.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
  return { found };
}

function keyOf(labels: Readonly<Record<string, string>>): string {
  const own = Object.entries(labels).filter(([name, value]) => value !== MARK && !ONLY_OURS.has(name));
  return JSON.stringify(
    own.map(([name, value]) => [name, name === DETAILS ? "" : value]).sort(([one = ""], [other = ""]) => (one < other ? -1 : 1)),
  );
}
