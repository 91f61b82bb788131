// `atherops login --sso`: the user logs in with a browser, which returns a code to this machine's loopback (RFC 8252, 7.3); with a browser
// on another machine, the user pastes the address instead. Invariants: a returned code is accepted only with the state of this login; the
// code is useless without the verifier, which is sent only to the backend; no program is started here.
import { createHash, randomBytes } from "node:crypto";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { createServer } from "../../common/http.ts";
import { Interrupted, Problem } from "./cli-error.ts";
import type { Client } from "./api-client.ts";
import type { World } from "./settings.ts";
import type { Session } from "./credentials.ts";

/** The same time that the backend waits for the identity provider. */
const WAIT_MS = 600_000;
const MAX_CODE_CHARACTERS = 2000;

type SsoClient = Pick<Client, "address" | "checkSso" | "loginByCode">;

export async function loginBySso(world: World, client: SsoClient, waitMs = WAIT_MS): Promise<Session> {
  const [state, verifier] = [secret(), secret()];
  await using browser = await Browser.expected(state);
  const challenge = createHash("sha256").update(verifier).digest();
  const query = { cli_port: String(browser.port), cli_state: state, cli_challenge: challenge.toString("base64url") };
  const path = `/api/auth/oidc/start?${new URLSearchParams(query).toString()}`;
  await client.checkSso(path);
  world.stderr.write(`Open this URL in a browser and log in:\n\n  ${client.address}${path}\n\n`);
  world.stderr.write(`The page shows a code. Continue only if it is the same as this one:\n\n  ${comparisonCode(challenge)}\n\n`);
  using terminal = readTypedCode(world, state);
  if (world.stdin.isTTY)
    world.stderr.write(
      `Waiting for the login. If your browser runs on another machine, it ends at a URL that it cannot open: paste that URL here.\n`,
    );
  const code = await firstCode([browser.code, terminal.code], world, waitMs);
  try {
    const session = await client.loginByCode(code, verifier);
    browser.answer(`You are logged in as ${session.email}. You can close this window.`);
    return session;
  } catch (error) {
    browser.answer("Login failed. See the terminal for the reason.");
    throw error;
  }
}

/** The same code that the backend's page shows. */
function comparisonCode(challenge: Buffer): string {
  const digits = challenge.toString("hex").slice(0, 12).toUpperCase();
  return (digits.match(/.{4}/g) ?? []).join("-");
}

function secret(): string {
  return randomBytes(32).toString("base64url");
}

async function firstCode(codes: Promise<string>[], { signal }: World, waitMs: number): Promise<string> {
  const failure = Promise.withResolvers<never>();
  const onAbort = (): void => failure.reject(new Interrupted("login interrupted"));
  const timer = setTimeout(() => failure.reject(new Problem("login timed out after 10 minutes: run `atherops login --sso` again")), waitMs);
  signal?.addEventListener("abort", onAbort, { once: true });
  if (signal?.aborted) onAbort();
  try {
    return await Promise.race([...codes, failure.promise]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}

/** The code from an address at which the browser may have ended; undefined if it does not belong to this login. */
export function codeIn(address: string, state: string): string | undefined {
  const parameters = URL.parse(address.trim(), "http://127.0.0.1")?.searchParams;
  const code = parameters?.get("code") ?? "";
  return parameters?.get("state") === state && /^[\w.-]+$/.test(code) && code.length <= MAX_CODE_CHARACTERS ? code : undefined;
}

/** Reads the address that the user pastes. */
function readTypedCode({ stdin, stderr }: World, state: string): Disposable & { readonly code: Promise<string> } {
  const { promise, resolve } = Promise.withResolvers<string>();
  if (!stdin.isTTY) return { code: promise, [Symbol.dispose]: () => undefined };
  const lines = createInterface({ input: stdin });
  lines.on("line", (line) => {
    const code = codeIn(line, state);
    if (code !== undefined) resolve(code);
    else if (line.trim() !== "") stderr.write("This is not the URL of this login: it starts with http://127.0.0.1: and contains a code.\n");
  });
  return { code: promise, [Symbol.dispose]: () => lines.close() };
}

/** Waits for a browser on this machine to return. Requests under any other host name are refused and get no information. */
class Browser implements AsyncDisposable {
  readonly code: Promise<string>;
  readonly #server: Server;
  readonly #receivedCode = Promise.withResolvers<string>();
  #waiting: ServerResponse | undefined;
  #answered: Promise<void> | undefined;

  private constructor(state: string) {
    this.code = this.#receivedCode.promise;
    this.#server = createServer({ maxHeaderSize: 16_384 }, (request, response) => this.#receive(request, response, state));
  }

  static async expected(state: string): Promise<Browser> {
    const browser = new Browser(state);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    browser.#server.once("error", reject);
    browser.#server.listen({ host: "127.0.0.1", port: 0 }, resolve);
    await promise;
    return browser;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  #receive(request: IncomingMessage, response: ServerResponse, state: string): void {
    const isOurs = request.method === "GET" && request.headers.host === `127.0.0.1:${this.port}`;
    const code = isOurs && !this.#waiting ? codeIn(request.url ?? "", state) : undefined;
    if (code === undefined) return page(response, 404, "No login is in progress.");
    this.#waiting = response;
    this.#receivedCode.resolve(code);
  }

  /** Shows a text in the browser window. */
  answer(text: string): void {
    if (!this.#waiting || this.#waiting.closed) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#answered = promise;
    this.#waiting.once("close", resolve);
    page(this.#waiting, 200, text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    await this.#answered;
    // Browsers open connections that they may never use; Node.js does not count those as idle.
    this.#server.closeAllConnections();
    await promise;
  }
}

function page(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, {
    "content-type": "text/plain; charset=utf-8",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    connection: "close",
  });
  response.end(`${text}\n`);
}
