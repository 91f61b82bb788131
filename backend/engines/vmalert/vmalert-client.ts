// Reads the state of the rules that vmalert, embedded or not, has loaded, and makes it reload them, over its HTTP API. Invariant: nothing
// else in vmalert is changed; an unreachable vmalert and an invalid response are an EvaluatorError.
import { Pool } from "../http-pool.ts";
import { MAX_VMALERT_ANSWER_BYTES } from "../engine-limits.ts";
import { loginOf, statusOf } from "../engine-http.ts";

/** A rule that vmalert has loaded (`/api/v1/rules`), with only the fields that are used here. */
export interface LoadedRule {
  readonly name: string;
  readonly state: string;
  readonly health: string;
  /** Contains addresses, and may contain names of other organisations. */
  readonly lastError?: string;
  /** Duration of the last evaluation, in seconds. */
  readonly evaluationTime: number;
  /** The number of series that the last evaluation found. */
  readonly lastSamples: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** RFC 3339; year 1 before the first evaluation. */
  readonly lastEvaluation: string;
  readonly alerts?: readonly LoadedAlert[] | null;
}

export interface LoadedAlert {
  /** Derived from the alert's labels; unique within the rule. */
  readonly id: string;
  readonly state: string;
  readonly activeAt: string;
  readonly value: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface LoadedGroup {
  readonly name: string;
  /** Each as `name=value`. */
  readonly params?: readonly string[];
  readonly rules: readonly LoadedRule[];
}

export interface RuleFilter {
  /** Names of groups; unset: all. */
  readonly groups?: readonly string[];
  /** Labels that a rule must have: all labels of one of these sets. */
  readonly labels?: readonly Readonly<Record<string, string>>[];
  readonly withoutAlerts?: boolean;
}

/** The bytes that several responses may have together; each response reduces it. */
export interface AnswerBudget {
  bytes: number;
}

/** vmalert cannot be reached, or its response is invalid. */
export class EvaluatorError extends Error {
  override readonly name = "EvaluatorError";
}

/** vmalert did not respond in time. */
export class EvaluatorBusyError extends EvaluatorError {}

/** The response exceeds the budget. */
export class AnswerTooLargeError extends EvaluatorError {
  constructor() {
    super("vmalert's answer is larger than may be read");
  }
}

const CONNECTIONS = 16;
const TIMEOUT_MS = 5000;
const BUSY_CODE = /^UND_ERR_(CONNECT|HEADERS|BODY)_TIMEOUT$/;

export class VmalertClient implements AsyncDisposable {
  readonly #pool: Pool;
  readonly #url: string;
  readonly #basePath: string;
  readonly #headers: Readonly<Record<string, string>>;

  /** `url` may have a path and user:password. */
  constructor(url: string) {
    const login = loginOf(url);
    const { origin, pathname } = new URL(login.url);
    this.#url = login.url;
    this.#headers = login.headers;
    this.#basePath = pathname.replace(/\/+$/, "");
    this.#pool = new Pool(origin, { connections: CONNECTIONS, headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS, connectTimeout: 3000 });
  }

  /** Groups with their matching rules; groups without any are left out. Throws AnswerTooLargeError if the response exceeds `budget`. */
  async groups(filter: RuleFilter = {}, budget?: AnswerBudget): Promise<readonly LoadedGroup[]> {
    const query = new URLSearchParams({ type: "alert" });
    for (const group of filter.groups ?? []) query.append("rule_group[]", group);
    for (const labels of filter.labels ?? []) {
      const matchers = Object.entries(labels).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
      query.append("match[]", `{${matchers.join(",")}}`);
    }
    if (filter.withoutAlerts) query.append("exclude_alerts", "true");
    const answer = await this.#get(`/api/v1/rules?${query.toString()}`, budget);
    const groups = (parseAnswer(answer) as { data?: { groups?: unknown } }).data?.groups;
    if (!Array.isArray(groups)) throw new EvaluatorError("vmalert's answer to /api/v1/rules has no groups");
    return groups as LoadedGroup[];
  }

  /** Throws EvaluatorError if vmalert does not respond. */
  async ping(): Promise<void> {
    const status = await statusOf(`${this.#url}/health`, { headers: this.#headers, timeoutMs: TIMEOUT_MS }).catch((cause: unknown) => {
      throw new EvaluatorError("vmalert cannot be asked for /health", { cause });
    });
    if (status !== 200) throw new EvaluatorError(`vmalert answered ${status} to /health`);
  }

  /** Requests a reload. vmalert responds before it reloads, whether or not that succeeds. */
  async reload(): Promise<void> {
    await this.#get("/-/reload");
  }

  /** True if vmalert refused the rules at its last reload and still runs the previous ones. */
  async refusedLastReload(): Promise<boolean> {
    return /^vmalert_config_last_reload_successful 0$/m.test(await this.#get("/metrics"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool.destroy();
  }

  async #get(path: string, budget: AnswerBudget = { bytes: MAX_VMALERT_ANSWER_BYTES }): Promise<string> {
    try {
      const answer = await this.#pool.request({ method: "GET", path: this.#basePath + path, headers: this.#headers });
      const text = await textOf(answer.body, budget);
      if (answer.statusCode === 200) return text;
      throw new EvaluatorError(`vmalert answered ${answer.statusCode} to ${path.split("?")[0]}: ${text.slice(0, 300)}`);
    } catch (error) {
      if (error instanceof EvaluatorError) throw error;
      const Failure = BUSY_CODE.test((error as NodeJS.ErrnoException).code ?? "") ? EvaluatorBusyError : EvaluatorError;
      throw new Failure(`vmalert cannot be asked for ${path.split("?")[0]}`, { cause: error });
    }
  }
}

async function textOf(body: AsyncIterable<Buffer>, budget: AnswerBudget): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of body) {
    budget.bytes -= chunk.length;
    if (budget.bytes < 0) throw new AnswerTooLargeError();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parseAnswer(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new EvaluatorError("vmalert's answer is not JSON", { cause: error });
  }
}
