// Calls the backend's HTTP API with the stored session, and converts error responses to Problems. Invariant: a password or token is never
// sent unencrypted to another machine.
import { isLoopback } from "../../common/ip-networks.ts";
import { readPassword, readSession, type Session, writeSession } from "./credentials.ts";
import { Missing, TemporaryProblem, Problem, RefusedValue, WrongUsage } from "./cli-error.ts";
import type { World } from "./settings.ts";
import type { Row } from "./text-table.ts";

export interface Page<T> {
  readonly rows: T[];
  readonly next: string | undefined;
}

export interface CallOptions {
  query?: Record<string, string | string[] | undefined>;
  body?: unknown;
}

export interface OpenOptions extends Pick<CallOptions, "query"> {
  headers?: Readonly<Record<string, string>>;
  signal?: AbortSignal;
}

const EVENTS = "text/event-stream";
/** A retry may succeed after these statuses. */
const TEMPORARY = new Set([429, 502, 503, 504]);

export class Client {
  readonly #world: World;
  readonly #allowPlainHttp: boolean;
  readonly #configuredUrl: string | undefined;
  #session: Session | undefined;

  constructor(world: World, { url, allowPlainHttp }: { url?: string | undefined; allowPlainHttp?: boolean | undefined }) {
    this.#world = world;
    this.#configuredUrl = url ?? world.settings.url;
    this.#allowPlainHttp = allowPlainHttp ?? false;
    this.#session = readSession(world.settings.sessionFile);
  }

  /** Logs in, stores the session, and returns its address and e-mail. Throws Problem with the backend's message. */
  async login(email: string | undefined, password: string): Promise<Session> {
    const url = this.#url();
    const address = email ?? this.#session?.email ?? "admin@localhost";
    const response = await this.#send("POST", `${url}/api/auth/login`, { body: { email: address, password } });
    if (!response.ok) throw await toProblem(response);
    const { token } = (await response.json()) as { token: string };
    this.#session = { url, email: address, token };
    writeSession(this.#world.settings.sessionFile, this.#session);
    return this.#session;
  }

  /** Throws Problem if the backend has no single sign-on; `path`: where a browser would start it. */
  async checkSso(path: string): Promise<void> {
    const response = await this.#send("GET", `${this.#url()}${path}`, { redirect: "manual" });
    if (response.status !== 302 && !response.ok) throw await toProblem(response);
    await response.body?.cancel();
    if (response.status !== 302) throw new Problem("this is not an AtherOps backend; is the URL right?");
  }

  /** Exchanges the code that single sign-on returned, and stores the session. */
  async loginByCode(code: string, verifier: string): Promise<Session> {
    const url = this.#url();
    const response = await this.#send("POST", `${url}/api/auth/oidc/token`, { body: { code, verifier } });
    if (!response.ok) throw await toProblem(response);
    const { token, email } = (await response.json()) as { token: string; email: string };
    this.#session = { url, email, token, sso: true };
    writeSession(this.#world.settings.sessionFile, this.#session);
    return this.#session;
  }

  /** Returns the JSON of the response (undefined without a body). If ATHEROPS_PASSWORD_FILE is set, an expired session is renewed once. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller states the type that the contract defines
  async call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
    const response = await this.#authorized(method, `${this.#url()}${path}${queryString(options.query)}`, options);
    const text = await response.text();
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  /** One page of a query: its rows, and the URL of the next page. */
  async page<T = Row>(pathOrUrl: string, query?: CallOptions["query"]): Promise<Page<T>> {
    const response = await this.#authorized("GET", new URL(`${pathOrUrl}${queryString(query)}`, `${this.#url()}/`).href, {});
    const next = /<([^>]*)>;\s*rel="?next"?/.exec(response.headers.get("link") ?? "")?.[1];
    return { rows: (await response.json()) as T[], next };
  }

  /** Server-sent events of a response that may never end, as they arrive. Throws Problem if the response has another type. */
  async open(path: string, { query, headers, ...options }: OpenOptions): Promise<AsyncIterable<Uint8Array>> {
    const accepting = { ...options, headers: { ...headers, accept: EVENTS } };
    const response = await this.#authorized("GET", `${this.#url()}${path}${queryString(query)}`, accepting);
    if (response.body && response.headers.get("content-type")?.startsWith(EVENTS)) return response.body;
    await response.body?.cancel();
    throw new Problem("this is not an AtherOps backend; is the URL right?");
  }

  /** The rows of all pages of a list, at most `limit`. */
  async rows<T = Row>(path: string, query?: CallOptions["query"], limit = Number.POSITIVE_INFINITY): Promise<T[]> {
    let page = await this.page<T>(path, query);
    const rows = [...page.rows];
    while (page.next !== undefined && rows.length < limit) {
      page = await this.page<T>(page.next);
      rows.push(...page.rows);
    }
    return rows.slice(0, limit);
  }

  /** URL of the backend, without a trailing slash. Throws Problem if the URL may not be used. */
  get address(): string {
    return this.#url();
  }

  /** Uses this read token instead of the stored session. */
  useToken(token: string): void {
    this.#session = { url: this.#url(), email: "", token, sso: true };
  }

  /** Posts a JSON-RPC message and returns the messages of the response: none, one, or those of a stream of events. */
  async postMessage(path: string, text: string, headers: Readonly<Record<string, string>>): Promise<string[]> {
    const accept = `application/json, ${EVENTS}`;
    const response = await this.#authorized("POST", `${this.#url()}${path}`, { body: JSON.parse(text), headers: { ...headers, accept } });
    const answer = await response.text();
    if (!response.headers.get("content-type")?.startsWith(EVENTS)) return answer === "" ? [] : [answer];
    return answer.split("\n").flatMap((line) => (line.startsWith("data:") && line.length > 6 ? [line.slice(5).trim()] : []));
  }

  /** The URL of a console address (`#/…`), or a URL as it is. */
  consoleLink(address: string): string {
    return address.startsWith("#") ? `${this.#url()}/${address}` : address;
  }

  async #authorized(method: string, url: string, options: CallOptions & OpenOptions): Promise<Response> {
    if (!this.#session) throw new Problem("not logged in: run `atherops login --url <address of the backend>`");
    if (new URL(url).origin !== new URL(this.#session.url).origin)
      throw new Problem(`the session belongs to ${this.#session.url}: run \`atherops login --url ${this.#url()}\``);
    let response = await this.#send(method, url, options, this.#session.token);
    if (response.status === 401 && this.#world.settings.passwordFile && !this.#session.sso) {
      await this.login(undefined, await readPassword("", this.#world, this.#world.settings.passwordFile));
      response = await this.#send(method, url, options, this.#session.token);
    }
    if (response.status === 401) throw new Problem(`the session has ended: run \`atherops login${this.#session.sso ? " --sso" : ""}\``);
    if (!response.ok) throw await toProblem(response);
    const [, warning] = /"(.*)"/.exec(response.headers.get("warning") ?? "") ?? [];
    if (warning !== undefined) this.#world.stderr.write(`warning: ${warning}\n`);
    return response;
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
      throw new TemporaryProblem(`${new URL(url).origin} cannot be reached: ${causeText(error)}`);
    }
  }

  #url(): string {
    const text = this.#configuredUrl ?? this.#session?.url ?? "http://127.0.0.1:8080";
    if (!URL.canParse(text)) throw new WrongUsage(`${text} is not a URL: write it as https://host or http://127.0.0.1:8080`);
    const url = new URL(text);
    if (!/^https?:$/.test(url.protocol))
      throw new WrongUsage(`${text} is not the URL of a backend: it must start with https:// or http://`);
    if (url.protocol === "http:" && !isLoopback(url.hostname) && !this.#allowPlainHttp)
      throw new WrongUsage(
        `${url.origin} would receive your credentials unencrypted: use https, or --allow-plain-http in a trusted network`,
      );
    return url.href.replace(/\/+$/, "");
  }
}

function queryString(query: CallOptions["query"]): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) for (const text of [value ?? []].flat()) parameters.append(name, text);
  return parameters.size === 0 ? "" : `?${parameters.toString()}`;
}

/** Converts a message that begins with the name of a field or parameter; returns undefined for other messages. */
function refusedValue(text: string): RefusedValue | undefined {
  const [, field, reason] = /^([a-z_]+(?:\.[^\s:.]+)*): (.+)$/s.exec(text) ?? [];
  return field === undefined || reason === undefined ? undefined : new RefusedValue(field, reason);
}

async function toProblem(response: Response): Promise<Problem> {
  const text = await response.text();
  const retry = response.headers.get("retry-after");
  const wait = retry ? ` (try again in ${retry} s)` : "";
  try {
    // The Prometheus API uses other names: `error` is the message.
    const { error, message = error, errorType = error } = JSON.parse(text) as { error: string; message?: string; errorType?: string };
    // The metrics engine repeats the status as the error type.
    const kind = errorType === undefined || errorType === String(response.status) ? "" : ` ${errorType}`;
    const reason = `${message} [${response.status}${kind}]${wait}`;
    if (response.status === 404) return new Missing(reason);
    if (response.status === 400) return refusedValue(reason) ?? new WrongUsage(reason);
    return TEMPORARY.has(response.status) ? new TemporaryProblem(reason, { retryAfterS: Number(retry) || 0 }) : new Problem(reason);
  } catch {
    if (TEMPORARY.has(response.status)) return new TemporaryProblem(`the backend answered ${response.status}${wait}`);
    return new Problem(`the backend answered ${response.status}${wait}; is the URL right?`);
  }
}

function causeText(error: unknown): string {
  const { cause, message } = error as Error & { cause?: NodeJS.ErrnoException };
  return cause?.code ?? cause?.message ?? message;
}
