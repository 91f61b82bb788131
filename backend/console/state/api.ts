// Calls of the backend's API with the browser's session. Invariants: every call carries the header that no other site can send; a session
// that has ended asks for a login and then makes the same call again, so nothing that was typed is lost; an error is the backend's words.
import { signal } from "@preact/signals";
import { loggedInAgain, loginsSoFar } from "./ended.ts";

export const SESSION_HEADER = { "x-requested-with": "atherops" };
/** Their 401 is an answer to who logs in, not the end of a session. */
const LOGIN_PATHS: ReadonlySet<string> = new Set([
  "/api/auth/session",
  "/api/auth/session/code",
  "/api/auth/invitation",
  "/api/auth/invitation/accept",
]);
/** For each path, the warning that the last response was incomplete because a shard was unavailable. */
export const missing = signal<Readonly<Record<string, string>>>({});
const TRIES = 3;
const LONGEST_WAIT_S = 20;

/** An error response of the backend. `status` is 0 if the backend could not be reached. */
export class ApiFailure extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export interface Call {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  /** Pairs, because some names come more than once. */
  readonly query?: Iterable<readonly [string, string]>;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** One page of an answer, and where the next one is. */
export interface Page<T> {
  readonly body: T;
  readonly next: string | undefined;
}

export async function call<T>(path: string, options: Call = {}): Promise<T> {
  return (await page<T>(path, options)).body;
}

/** Throws ApiFailure; a reading call that is refused for load is made again when the backend says so. */
export async function page<T>(path: string, options: Call = {}): Promise<Page<T>> {
  for (let tries = 1; ; tries++) {
    const logins = loginsSoFar();
    const answer = await answerOf(path, options);
    if (answer.status === 401 && !LOGIN_PATHS.has(path)) {
      await loggedInAgain(logins, options.signal);
      continue;
    }
    noteMissing(path.split("?", 1)[0] ?? "", /"(.*)"/.exec(answer.headers.get("warning") ?? "")?.[1]);
    if (answer.ok)
      return { body: (answer.status === 204 ? undefined : await answer.json()) as T, next: nextOf(answer.headers.get("link")) };
    const waitS = Number(answer.headers.get("retry-after") ?? Number.NaN);
    const isReading = (options.method ?? "GET") === "GET";
    if (!isReading || ![429, 503].includes(answer.status) || tries === TRIES || !(waitS <= LONGEST_WAIT_S)) throw await failureOf(answer);
    await wait(Math.max(waitS, 1) * 1000, options.signal);
  }
}

function noteMissing(path: string, warning: string | undefined): void {
  const { [path]: before, ...others } = missing.peek();
  if (before !== warning) missing.value = warning === undefined ? others : { ...others, [path]: warning };
}

/** All pages of a list, up to a limit. */
export interface Whole<T> {
  readonly rows: T[];
  /** There is more than was read. */
  readonly isCut: boolean;
}

export async function wholeList<T>(path: string, signal: AbortSignal, mostPages = 20): Promise<Whole<T>> {
  const rows: T[] = [];
  let at: string | undefined = path;
  for (let pages = 0; at && pages < mostPages; pages++) {
    const { body, next }: { body: T[]; next: string | undefined } = await page<T[]>(at, { signal });
    rows.push(...body);
    at = next;
  }
  return { rows, isCut: at !== undefined };
}

/** The answer whatever its status; for what is read as it comes. Throws ApiFailure when the backend is not reached. */
export async function answerOf(path: string, { method = "GET", query, body, headers: own, signal }: Call): Promise<Response> {
  const asked = new URLSearchParams([...(query ?? [])].map(([name, value]) => [name, value])).toString();
  const headers = { ...SESSION_HEADER, ...own, ...(body !== undefined && { "content-type": "application/json" }) };
  try {
    return await fetch(asked ? `${path}?${asked}` : path, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
      credentials: "same-origin",
      redirect: "error",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiFailure(0, "unreachable", "cannot reach the backend: it has stopped, or the network is down");
  }
}

export async function failureOf(answer: Response): Promise<ApiFailure> {
  const body = (await answer.json().catch(() => ({}))) as { error?: string; message?: string; errorType?: string };
  // Prometheus' own form has the words in `error` and the kind in `errorType`.
  const [code, words] = body.errorType ? [body.errorType, body.error] : [body.error, body.message];
  return new ApiFailure(answer.status, code ?? "unknown", words ?? `the backend answered ${answer.status}`);
}

/** `<…>; rel="next"` of a Link header. */
export function nextOf(link: string | null): string | undefined {
  return link?.match(/<([^>]+)>\s*;[^,]*\brel="?next\b/)?.[1];
}

/** The message to show for any error. */
export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export async function wait(ms: number, signal?: AbortSignal): Promise<void> {
  await new Promise<void>((done, fail) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), fail(signal.reason as Error)), { once: true });
  });
}
