// HTTP helpers for engines: the login of embedded engines, and a status probe without a connection pool. Embedded engines require a login,
// because every user of the machine can connect to loopback ports. Invariant: the password is generated once and exists only in its file
// (mode 0600) and in this process; engines get the path of the file, never the password in an argument or environment variable.
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { makeFolder, writeDurably } from "../../common/files.ts";
import { request } from "../../common/http.ts";

const USER = "atherops";
const PASSWORD = /^[\w-]{20,}$/;

/** A URL without its user and password, and the header that replaces them. */
export interface LoginOfUrl {
  readonly url: string;
  readonly user: string;
  readonly password: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface EngineLogin {
  /** Command-line flags for programs that use VictoriaMetrics' HTTP server. */
  readonly flags: readonly string[];
  /** Returns the URL with the user and password. */
  in(url: string): string;
}

/** Generates the password if the file contains none. Without a file, there is no login. */
export function engineLogin(passwordFile: string | undefined): EngineLogin {
  if (passwordFile === undefined) return { flags: [], in: (url) => url };
  const password = readOrGenerate(passwordFile);
  return {
    flags: [`-httpAuth.username=${USER}`, `-httpAuth.password=file://${resolve(passwordFile)}`],
    in: (url) => url.replace("://", `://${USER}:${password}@`),
  };
}

/** Splits a URL into its login and the URL without it. */
export function loginOf(urlWithLogin: string): LoginOfUrl {
  const url = new URL(urlWithLogin);
  const [user, password] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
  url.username = url.password = "";
  const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
  return { url: url.href.replace(/\/+$/, ""), user, password, headers: user || password ? { authorization } : {} };
}

/** Writes a new password if the file contains no valid one, for example after a power failure. */
function readOrGenerate(file: string): string {
  const stored = existsSync(file) ? readFileSync(file, "utf8").trim() : "";
  if (PASSWORD.test(stored)) return stored;
  makeFolder(dirname(file), 0o700);
  const password = randomBytes(32).toString("base64url");
  writeDurably(file, password);
  return password;
}

export interface StatusOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

/**
 * Sends a GET to `url` (http or https, without a login) and returns the status code; rejects after `timeoutMs`. Each probe opens its own
 * connection, so it does not wait for tenants' queries, and ignores the response body. It does not use undici: V8 compiles undici's parser
 * during the first responses, which costs 60 ms and 12 MB, and an idle backend has no other use for it.
 */
export async function statusOf(url: string, { headers, timeoutMs }: StatusOptions): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const send = url.startsWith("https:") ? process.getBuiltinModule("node:https").request : request;
  const sent = send(url, { headers, agent: false }, (answer) => resolve(answer.statusCode ?? 0));
  sent.on("error", reject).end();
  const timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    sent.destroy();
  }
}
