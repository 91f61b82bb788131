// Calls the backend's API with the browser's session. Invariants: every request has a header that other sites cannot send, and names the
// user for whom the page was loaded, because another tab may log in as someone else, who shares the cookie; if the session
// has expired, the user logs in and the request is repeated, so typed input is not lost; an error has the backend's message.
import { signal } from "@preact/signals";
import { waitForLogin, loginCount } from "./expired-session.ts";

let pageUser: string | undefined;

/** Call it with the user for whom this page shows data. */
export function setPageUser(user: { readonly email: string; readonly org: { readonly id: string } } | null | undefined): void {
  pageUser = user ? `${user.org.id} ${encodeURIComponent(user.email)}` : undefined;
}

export function sessionHeaders(path: string): Record<string, string> {
  return { "x-requested-with": "atherops", ...(pageUser !== undefined && !LOGIN_PATHS.has(path) && { "x-session-user": pageUser }) };
}

/** A 401 for these paths means that the login failed, not that the session expired. */
const LOGIN_PATHS: ReadonlySet<string> = new Set([
  "/api/auth/session",
  "/api/auth/session/code",
  "/api/auth/invitation",
  "/api/auth/invitation/accept",
]);
/** Path → the warning that its last response was incomplete because a shard was unavailable. */
export const shardWarnings = signal<Readonly<Record<string, string>>>({});
const MAX_TRIES = 3;
const MAX_WAIT_S = 20;

/** An error response of the backend. `status` is 0 if the backend could not be reached. */
export class ApiFailure extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Parameters of a request. A list is sent as several parameters of the same name; undefined is not sent. */
export type Query = Readonly<Record<string, string | number | readonly string[] | undefined>>;

export interface Call {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  readonly query?: Query;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** One page of a list, and the path of the next page. */
export interface Page<T> {
  readonly body: T;
  readonly next: string | undefined;
}

export async function call<T>(path: string, options: Call = {}): Promise<T> {
  return (await page<T>(path, options)).body;
}

export async function saveResource<T>(path: string, id: string | undefined, body: unknown): Promise<T> {
  return await call<T>(id ? `${path}/${encodeURIComponent(id)}` : path, { method: id ? "PUT" : "POST", body });
}

/** Throws ApiFailure. A GET that the backend rejects because of its load is retried after the time in `Retry-After`. */
export async function page<T>(path: string, options: Call = {}): Promise<Page<T>> {
  for (let tries = 1; ; tries++) {
    const logins = loginCount();
    const response = await sendRequest(path, options);
    if (response.status === 401 && !LOGIN_PATHS.has(path)) {
      await waitForLogin(logins, options.signal);
      continue;
    }
    noteIncomplete(path.split("?", 1)[0] ?? "", /"(.*)"/.exec(response.headers.get("warning") ?? "")?.[1]);
    if (response.ok)
      return { body: (response.status === 204 ? undefined : await response.json()) as T, next: nextPageOf(response.headers.get("link")) };
    const waitS = Number(response.headers.get("retry-after") ?? Number.NaN);
    const isReading = (options.method ?? "GET") === "GET";
    if (!isReading || ![429, 503].includes(response.status) || tries === MAX_TRIES || !(waitS <= MAX_WAIT_S))
      throw await readFailure(response);
    await wait(Math.max(waitS, 1) * 1000, options.signal);
  }
}

function noteIncomplete(path: string, warning: string | undefined): void {
  const { [path]: before, ...others } = shardWarnings.peek();
  if (before !== warning) shardWarnings.value = warning === undefined ? others : { ...others, [path]: warning };
}

/** The rows of all pages of a list, up to a limit. */
export interface WholeList<T> {
  readonly rows: T[];
  /** True if the list has more rows. */
  readonly isTruncated: boolean;
}

export async function wholeList<T>(path: string, signal: AbortSignal, maxPages = 20): Promise<WholeList<T>> {
  const rows: T[] = [];
  let isTruncated = false;
  for await (const { body, next } of pagesOf<T>(path, { signal }, maxPages)) {
    rows.push(...body);
    isTruncated = next !== undefined;
  }
  return { rows, isTruncated };
}

/** The pages of a list, one after another. */
export async function* pagesOf<T>(path: string, options: Pick<Call, "query" | "signal">, maxPages = Infinity): AsyncGenerator<Page<T[]>> {
  const { query: _query, ...ofNext } = options;
  let current = await page<T[]>(path, options);
  yield current;
  for (let pages = 1; current.next && pages < maxPages; pages++) {
    // oxlint-disable-next-line no-await-in-loop -- each page has the address of the next one
    current = await page<T[]>(current.next, ofNext);
    yield current;
  }
}

/** Returns the response with any status, so that a stream can be read. Throws ApiFailure if the backend is unreachable. */
export async function sendRequest(path: string, { method = "GET", query, body, headers: extraHeaders, signal }: Call): Promise<Response> {
  const search = searchOf(query);
  const headers = {
    ...sessionHeaders(method === "DELETE" ? "" : path),
    ...extraHeaders,
    ...(body !== undefined && { "content-type": "application/json" }),
  };
  try {
    return await fetch(search === "" ? path : `${path}?${search}`, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
      credentials: "same-origin",
      redirect: "error",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiFailure(0, "The backend is unreachable. Check your network, and whether the backend is running.");
  }
}

function searchOf(query: Query = {}): string {
  const parameters = Object.entries(query).flatMap(([name, values]) => [values ?? []].flat().map((value) => [name, String(value)]));
  return new URLSearchParams(parameters).toString();
}

export async function readFailure(response: Response): Promise<ApiFailure> {
  const body = (await response.json().catch(() => ({}))) as { error?: string; message?: string; errorType?: string };
  // Prometheus' format has the message in `error`, next to `errorType`.
  const message = body.errorType ? body.error : body.message;
  return new ApiFailure(response.status, message ?? `the backend responded with status ${response.status}`);
}

/** `<…>; rel="next"` of a Link header. */
function nextPageOf(link: string | null): string | undefined {
  return link?.match(/<([^>]+)>\s*;[^,]*\brel="?next\b/)?.[1];
}

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export async function wait(ms: number, signal?: AbortSignal): Promise<void> {
  await new Promise<void>((done, fail) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), fail(signal.reason as Error)), { once: true });
  });
}
