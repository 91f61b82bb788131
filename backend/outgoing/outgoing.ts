// Sends requests to URLs that tenants choose: notifications, and the metadata and keys of trusted issuers. This process runs inside the
// operator's network. Invariants: https only; redirects are never followed; connections go to an address that was validated, not to a name
// that might resolve differently by then; each request has its own connection, so tenants never share one; time and bytes are limited; a
// failure is reported as a category, never with an address.
import { readFileSync } from "node:fs";
import { isIP, type LookupFunction } from "node:net";
import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";
import { callbackify } from "node:util";
import { bareHost, isLoopback } from "../../common/ip-networks.ts";
import { isExempt } from "../../common/no-proxy.ts";
import { readAtMost } from "../../common/read-at-most.ts";
import { loadProxyAgent, Pool, proxyPool } from "../engines/http-pool.ts";
import type { Log } from "../log.ts";
import { MAX_RECEIVER_RESPONSE_BYTES, MAX_RETRY_AFTER_MS } from "./outgoing-limits.ts";
import { type HostAddress, HostRefused, type Lookup, PermittedAddresses, resolvePermitted } from "./permitted-addresses.ts";

export interface OutgoingOptions {
  readonly allowedNetworks: readonly string[];
  /** PEM of authorities, in addition to the system's and well-known ones. */
  readonly caFile?: string | undefined;
  readonly httpsProxy?: string | undefined;
  readonly noProxy?: string | undefined;
  readonly log?: Log | undefined;
  readonly timeoutMs?: number;
  readonly lookup?: Lookup;
  readonly permitted?: PermittedAddresses;
}

export interface Post {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal?: AbortSignal | undefined;
}

export interface PostResponse {
  readonly status: number;
  /** Beginning of the body, unless the request was successful. */
  readonly text: string;
  readonly retryAfterMs: number | undefined;
}

/** The response to a GET request, complete. */
export interface GetResponse {
  readonly status: number;
  readonly body: Buffer;
}

/** There was no response, or it is too long. The message may be shown to tenants. */
export class RequestFailed extends Error {
  override readonly name = "RequestFailed";
  /** False if the address is part of the URL. */
  readonly retry: boolean;
  constructor(message: string, retry: boolean, options?: ErrorOptions) {
    super(message, options);
    this.retry = retry;
  }
}

const TIMEOUT_MS = 10_000;
/** Hosts that only their owners can redirect: a proxy gets the name instead of the address, because its rules contain names. */
const WELL_KNOWN = new Set([
  "hooks.slack.com",
  "hooks.slack-gov.com",
  "events.pagerduty.com",
  "events.eu.pagerduty.com",
  "api.opsgenie.com",
  "api.eu.opsgenie.com",
  "api.atlassian.com",
]);

/** The dispatcher to use for a request, and the origin to send it to. */
interface Connection extends AsyncDisposable {
  readonly pool: Pick<Pool, "request">;
  readonly origin: string;
}

export class Outgoing {
  readonly #options: OutgoingOptions;
  readonly #permitted: PermittedAddresses;
  #secureContext: SecureContext | undefined;

  constructor(options: OutgoingOptions) {
    this.#options = options;
    this.#permitted = options.permitted ?? new PermittedAddresses(options.allowedNetworks);
  }

  /** Why the URL alone is not allowed for a receiver; undefined if it is. */
  findUrlProblem(url: URL): string | undefined {
    if (url.protocol !== "https:") return "must begin with https://";
    if (url.username || url.password) return "must not contain a user name or a password";
    const host = bareHost(url.hostname);
    if (isIP(host) !== 0 && !this.#permitted.permits(host)) return "is an address that requests may not be sent to";
    return undefined;
  }

  /** Returns responses with any status. Throws RequestFailed if there is none. */
  async post(post: Post): Promise<PostResponse> {
    return await this.#send(post.url, post.signal, async (connection, signal) => await sendPost(connection, post, signal));
  }

  /** Returns responses with any status. Throws RequestFailed if there is none, or if it has more than `maxBytes`. */
  async get(url: URL, { maxBytes, signal }: { readonly maxBytes: number; readonly signal?: AbortSignal }): Promise<GetResponse> {
    return await this.#send(url, signal, async (connection, either) => await sendGet(connection, url, maxBytes, either));
  }

  async #send<T>(
    url: URL,
    ended: AbortSignal | undefined,
    exchange: (connection: Connection, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const problem = this.findUrlProblem(url);
    if (problem !== undefined) throw new RequestFailed(`the URL ${problem}`, false);
    const timeout = AbortSignal.timeout(this.#options.timeoutMs ?? TIMEOUT_MS);
    const signal = ended ? AbortSignal.any([timeout, ended]) : timeout;
    try {
      await using connection = await this.#connect(url, signal);
      return await exchange(connection, signal);
    } catch (cause) {
      if (cause instanceof RequestFailed) throw cause;
      const refused = findHostRefused(cause);
      if (refused && refused.found.length > 0)
        this.#options.log?.warn(
          { event: "notification.address_not_permitted", host: url.hostname, found: refused.found },
          "refused to connect to an address outside NOTIFY_ALLOWED_NETWORKS",
        );
      throw refused ? new RequestFailed(refused.message, true, { cause }) : describeFailure(cause, isLate(signal));
    }
  }

  async #connect(url: URL, signal: AbortSignal): Promise<Connection> {
    const { httpsProxy, noProxy = "" } = this.#options;
    const viaProxy = httpsProxy !== undefined && !isLoopback(url.hostname) && !isExempt(url.origin, noProxy);
    return viaProxy ? await this.#connectThroughProxy(httpsProxy, url, signal) : this.#connectDirectly(url, signal);
  }

  /** Validates the addresses when the connection is opened, and gives the socket only validated ones. */
  #connectDirectly(url: URL, signal: AbortSignal): Connection {
    const findAddresses = callbackify(async (hostname: string) => await this.#addressesOf(hostname, signal));
    const lookup: LookupFunction = (host, { all }, done) =>
      findAddresses(host, (error, addresses) => {
        if (error) done(error, "");
        else if (all) done(null, [...addresses]);
        else done(null, addresses[0].address, addresses[0].family);
      });
    const connect = { secureContext: this.#loadSecureContext(), lookup, timeout: this.#options.timeoutMs ?? TIMEOUT_MS };
    const pool = new Pool(url.origin, { connections: 1, pipelining: 1, allowH2: false, connect });
    return { pool, origin: url.origin, [Symbol.asyncDispose]: () => pool.destroy() };
  }

  /** The tunnel is opened to the validated address, because a proxy might resolve the name differently. */
  async #connectThroughProxy(uri: string, url: URL, signal: AbortSignal): Promise<Connection> {
    const ProxyAgent = await loadProxyAgent();
    const host = WELL_KNOWN.has(url.hostname) ? url.hostname : toHost(await this.#addressesOf(url.hostname, signal));
    const isNamed = isIP(bareHost(url.hostname)) === 0;
    const secureContext = this.#loadSecureContext();
    const timeoutMs = this.#options.timeoutMs ?? TIMEOUT_MS;
    const pool = new ProxyAgent({
      uri,
      connections: 1,
      pipelining: 1,
      allowH2: false,
      requestTls: { secureContext, ...(isNamed && { servername: url.hostname }) },
      proxyTls: { secureContext },
      clientFactory: (origin, options) => proxyPool(origin, options, timeoutMs),
    });
    return { pool, origin: `https://${host}:${url.port || 443}`, [Symbol.asyncDispose]: () => pool.destroy() };
  }

  async #addressesOf(hostname: string, signal: AbortSignal): Promise<readonly [HostAddress, ...HostAddress[]]> {
    return await resolvePermitted(hostname, { permitted: this.#permitted, lookup: this.#options.lookup, signal });
  }

  /** Created once: a host has hundreds of authorities. */
  #loadSecureContext(): SecureContext {
    return (this.#secureContext ??= createSecureContext({ ca: trustedAuthorities(this.#options.caFile) }));
  }
}

/** The certificates (PEM) of Node.js's well-known authorities, of the system's authorities, and of those in `caFile`. */
export function trustedAuthorities(caFile: string | undefined): string[] {
  const additional = caFile === undefined ? [] : [readFileSync(caFile, "utf8")];
  return [...new Set([...getCACertificates("default"), ...getCACertificates("system"), ...additional])];
}

function toHost([{ address, family }]: readonly [HostAddress, ...HostAddress[]]): string {
  return family === 6 ? `[${address}]` : address;
}

async function sendPost({ pool, origin }: Connection, { url, headers, body }: Post, signal: AbortSignal): Promise<PostResponse> {
  const response = await pool.request({
    origin,
    path: `${url.pathname}${url.search}`,
    method: "POST",
    headers: { ...headers, host: url.host },
    body,
    signal,
  });
  const { statusCode: status } = response;
  const isSuccess = status >= 200 && status < 300;
  // The status is known, and the rest of the response does not change it.
  const text = isSuccess ? "" : await readBeginning(response.body).catch(() => "");
  response.body.on("error", () => undefined).destroy();
  return { status, text, retryAfterMs: retryAfterMs(response.headers["retry-after"]) };
}

async function sendGet({ pool, origin }: Connection, url: URL, maxBytes: number, signal: AbortSignal): Promise<GetResponse> {
  const headers = { host: url.host, accept: "application/json", "user-agent": "atherops" };
  const { statusCode: status, body } = await pool.request({ origin, path: `${url.pathname}${url.search}`, method: "GET", headers, signal });
  const tooLarge = (): RequestFailed => new RequestFailed(`the response has more than ${maxBytes} bytes`, false);
  return { status, body: await readAtMost(maxBytes, body, tooLarge) };
}

async function readBeginning(body: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of body) {
    parts.push(part);
    bytes += part.length;
    if (bytes >= MAX_RECEIVER_RESPONSE_BYTES) break;
  }
  return Buffer.concat(parts).subarray(0, MAX_RECEIVER_RESPONSE_BYTES).toString("utf8");
}

/** Parses seconds or a date (RFC 9110, 10.2.3). */
function retryAfterMs(header: string | string[] | undefined): number | undefined {
  if (typeof header !== "string" || header.trim() === "") return undefined;
  const ms = /^\d+$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS);
}

function findHostRefused(cause: unknown): HostRefused | undefined {
  for (let at = cause; at instanceof Error; at = at.cause) if (at instanceof HostRefused) return at;
  return undefined;
}

/** Whether this request's timeout ended it, not its caller: both may happen at the same moment. */
function isLate({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason instanceof Error && reason.name === "TimeoutError";
}

/** Messages of libraries contain addresses and the proxy's name; only their codes are safe to show. */
function describeFailure(cause: unknown, timedOut: boolean): RequestFailed {
  if (timedOut) return new RequestFailed("no response in time", true, { cause });
  for (let at = cause; at instanceof Error; at = at.cause) {
    const { code } = at as NodeJS.ErrnoException;
    if (typeof code === "string" && /^[A-Z0-9_]{3,60}$/.test(code)) return new RequestFailed(`no response: ${code}`, true, { cause });
  }
  return new RequestFailed("no response", true, { cause });
}
