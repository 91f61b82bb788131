// The admin client's calls to the backend: finds the address, sends the session, converts refusals to sentences. Invariants: it uses only
// the HTTP API, never the database; a password or token is never sent unencrypted to another machine.
import { isIP } from "node:net";
import { readPassword, readSession, type Session, writeSession } from "./credentials.ts";
import { Missing, PassingProblem, Problem, RefusedValue, WrongUsage } from "./cli-error.ts";
import type { World } from "./settings.ts";
import type { Row } from "./table.ts";

export interface Page<T> {
  readonly rows: T[];
  readonly next: string | undefined;
}

export interface CallOptions {
  query?: Record<string, string | string[] | undefined>;
  body?: unknown;
}

/** Options of a streamed response. */
export interface OpenOptions extends Pick<CallOptions, "query"> {
  headers?: Readonly<Record<string, string>>;
  signal?: AbortSignal;
}

const EVENTS = "text/event-stream";
/** Requests with these statuses are worth repeating. */
const PASSING = new Set([429, 502, 503, 504]);

export class Client {
  readonly #world: World;
  readonly #allowPlainHttp: boolean;
  readonly #givenUrl: string | undefined;
  #session: Session | undefined;

  constructor(world: World, { url, allowPlainHttp }: { url?: string | undefined; allowPlainHttp?: boolean | undefined }) {
    this.#world = world;
    this.#givenUrl = url ?? world.settings.url;
    this.#allowPlainHttp = allowPlainHttp ?? false;
    this.#session = readSession(world.settings.sessionFile);
  }

  /** Logs in, stores the session, and returns its address and e-mail. Throws Problem with the backend's message. */
  async login(email: string | undefined, password: string): Promise<Session> {
    const url = this.#url();
    const known = email ?? this.#session?.email ?? "admin@localhost";
    const answer = await this.#send("POST", `${url}/api/auth/login`, { body: { email: known, password } });
    if (!answer.ok) throw await refusal(answer);
    const { token } = (await answer.json()) as { token: string };
    this.#session = { url, email: known, token };
    writeSession(this.#world.settings.sessionFile, this.#session);
    return this.#session;
  }

  /** Throws Problem if the backend has no single sign-on; `path`: where a browser would start it. */
  async checkSso(path: string): Promise<void> {
    const answer = await this.#send("GET", `${this.#url()}${path}`, { redirect: "manual" });
    if (answer.status !== 302 && !answer.ok) throw await refusal(answer);
    await answer.body?.cancel();
    if (answer.status !== 302) throw new Problem("this is not an AtherOps backend; is the URL right?");
  }

  /** Exchanges the code that single sign-on returned, and stores the session. */
  async loginByCode(code: string, verifier: string): Promise<Session> {
    const url = this.#url();
    const answer = await this.#send("POST", `${url}/api/auth/oidc/token`, { body: { code, verifier } });
    if (!answer.ok) throw await refusal(answer);
    const { token, email } = (await answer.json()) as { token: string; email: string };
    this.#session = { url, email, token, sso: true };
    writeSession(this.#world.settings.sessionFile, this.#session);
    return this.#session;
  }

  /** The answer's JSON (undefined without a body). An expired session is renewed once where ATHEROPS_PASSWORD_FILE is set. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller says what the contract promises
  async call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
    const answer = await this.#authorized(method, `${this.#url()}${path}${queryOf(options.query)}`, options);
    const text = await answer.text();
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  /** One page of a query: its rows, and the URL of the next page. */
  async page<T = Row>(pathOrUrl: string, query?: CallOptions["query"]): Promise<Page<T>> {
    const answer = await this.#authorized("GET", new URL(`${pathOrUrl}${queryOf(query)}`, `${this.#url()}/`).href, {});
    const next = /<([^>]*)>;\s*rel="?next"?/.exec(answer.headers.get("link") ?? "")?.[1];
    return { rows: (await answer.json()) as T[], next };
  }

  /** Server-sent events of a response that may never end, as they arrive. Throws Problem if the response has another type. */
  async open(path: string, { query, headers, ...options }: OpenOptions): Promise<AsyncIterable<Uint8Array>> {
    const accepting = { ...options, headers: { ...headers, accept: EVENTS } };
    const answer = await this.#authorized("GET", `${this.#url()}${path}${queryOf(query)}`, accepting);
    if (answer.body && answer.headers.get("content-type")?.startsWith(EVENTS)) return answer.body;
    await answer.body?.cancel();
    throw new Problem("this is not an AtherOps backend; is the URL right?");
  }

  /** The rows of all pages of a list. */
  async all<T = Row>(path: string): Promise<T[]> {
    const all: T[] = [];
    for (let next: string | undefined = path; next !== undefined;) {
      const page: Page<T> = await this.page(next);
      all.push(...page.rows);
      next = page.next;
    }
    return all;
  }

  /** URL of the backend, without a trailing slash. Throws Problem if the URL may not be used. */
  get address(): string {
    return this.#url();
  }

  async #authorized(method: string, url: string, options: CallOptions & OpenOptions): Promise<Response> {
    if (!this.#session) throw new Problem("not logged in: run `atherops login --url <address of the backend>`");
    if (new URL(url).origin !== new URL(this.#session.url).origin)
      throw new Problem(`the session belongs to ${this.#session.url}: run \`atherops login --url ${this.#url()}\``);
    let answer = await this.#send(method, url, options, this.#session.token);
    if (answer.status === 401 && this.#world.settings.passwordFile && !this.#session.sso) {
      await this.login(undefined, await readPassword("", this.#world, this.#world.settings.passwordFile));
      answer = await this.#send(method, url, options, this.#session.token);
    }
    if (answer.status === 401) throw new Problem(`the session has ended: run \`atherops login${this.#session.sso ? " --sso" : ""}\``);
    if (!answer.ok) throw await refusal(answer);
    const [, warning] = /"(.*)"/.exec(answer.headers.get("warning") ?? "") ?? [];
    if (warning !== undefined) this.#world.stderr.write(`warning: ${warning}\n`);
    return answer;
  }

  async #send(
    method: string,
    url: string,
    options: CallOptions & OpenOptions & { readonly redirect?: "manual" },
    token?: string,
  ): Promise<Response> {
    const { body, signal = this.#world.signal, redirect = "error" } = options;
    const headers = {
      ...options.headers,
      ...(token && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
    };
    const send = this.#world.fetch ?? fetch;
    try {
      return await send(url, {
        method,
        headers,
        redirect,
        signal: signal ?? null,
        body: body === undefined ? null : JSON.stringify(body),
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new PassingProblem(`${new URL(url).origin} cannot be reached: ${reason(error)}`);
    }
  }

  #url(): string {
    const text = this.#givenUrl ?? this.#session?.url ?? "http://127.0.0.1:8080";
    if (!URL.canParse(text)) throw new WrongUsage(`${text} is not a URL: give it as https://host or http://127.0.0.1:8080`);
    const url = new URL(text);
    if (!/^https?:$/.test(url.protocol)) throw new WrongUsage(`${text} is no address of a backend: it begins with https:// or http://`);
    if (url.protocol === "http:" && !isLoopback(url.hostname) && !this.#allowPlainHttp)
      throw new WrongUsage(`${url.origin} would carry your login in clear text: use https, or --allow-plain-http in a network you trust`);
    return url.href.replace(/\/+$/, "");
  }
}

function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || (isIP(hostname) === 4 && hostname.startsWith("127."));
}

function queryOf(query: CallOptions["query"]): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) for (const one of [value ?? []].flat()) parameters.append(name, one);
  return parameters.size === 0 ? "" : `?${parameters.toString()}`;
}

/** The refused field of a message that begins with the name of a field or parameter. */
function refusedValue(text: string): RefusedValue | undefined {
  const [, field, words] = /^([a-z_]+(?:\.[^\s:.]+)*): (.+)$/s.exec(text) ?? [];
  return field === undefined || words === undefined ? undefined : new RefusedValue(field, words);
}

async function refusal(answer: Response): Promise<Problem> {
  const text = await answer.text();
  const retry = answer.headers.get("retry-after");
  const wait = retry ? ` (try again in ${retry} s)` : "";
  try {
    // The Prometheus API uses other names: `error` is the message.
    const { error, message = error, errorType = error } = JSON.parse(text) as { error: string; message?: string; errorType?: string };
    // The metrics engine repeats the status as the error type.
    const kind = errorType === undefined || errorType === String(answer.status) ? "" : ` ${errorType}`;
    const reason = `${message} [${answer.status}${kind}]${wait}`;
    if (answer.status === 404) return new Missing(reason);
    if (answer.status === 400) return refusedValue(reason) ?? new WrongUsage(reason);
    return PASSING.has(answer.status) ? new PassingProblem(reason, { retryAfterS: Number(retry) || 0 }) : new Problem(reason);
  } catch {
    if (PASSING.has(answer.status)) return new PassingProblem(`the backend answered ${answer.status}${wait}`);
    return new Problem(`the backend answered ${answer.status}${wait}; is the URL right?`);
  }
}

function reason(error: unknown): string {
  const { cause, message } = error as Error & { cause?: NodeJS.ErrnoException };
  return cause?.code ?? cause?.message ?? message;
}
