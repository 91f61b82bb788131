// HTTP helpers for engines, without the connection pool: the login of embedded engines, and a probe of their status. Embedded engines
// require a login, because every user of the machine can reach loopback ports. Invariant: the password is generated once and exists only in
// its file (0600) and in this process; engines get the name of the file, never the password in an argument or variable.
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { makeFolder, writeDurably } from "../../common/files.ts";
import { request } from "../../common/http.ts";

const USER = "atherops";
const PASSWORD = /^[\w-]{20,}$/;

/** A URL without user:password, and the header that replaces them. */
export interface LoginOfUrl {
  readonly url: string;
  readonly user: string;
  readonly password: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface EngineLogin {
  /** Arguments of a program built on VictoriaMetrics' HTTP server. */
  readonly flags: readonly string[];
  /** The same URL with the login. */
  in(url: string): string;
}

/** Generates the password if the file has none. Undefined file: there is no login. */
export function engineLogin(passwordFile: string | undefined): EngineLogin {
  if (passwordFile === undefined) return { flags: [], in: (url) => url };
  const password = readOrGenerate(passwordFile);
  return {
    flags: [`-httpAuth.username=${USER}`, `-httpAuth.password=file://${resolve(passwordFile)}`],
    in: (url) => url.replace("://", `://${USER}:${password}@`),
  };
}

/** Removes the user and password from a URL. */
export function loginOf(urlWithLogin: string): LoginOfUrl {
  const url = new URL(urlWithLogin);
  const [user, password] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
  url.username = url.password = "";
  const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
  return { url: url.href.replace(/\/+$/, ""), user, password, headers: user || password ? { authorization } : {} };
}

/** If the file has no valid password, for example after a power failure, a new one is written. */
function readOrGenerate(file: string): string {
  const kept = existsSync(file) ? readFileSync(file, "utf8").trim() : "";
  if (PASSWORD.test(kept)) return kept;
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
 * The status of one GET of `url`, which is http or https and has no login; rejects if there is no response in time. Each probe has its own
 * connection, so it does not wait for queries of tenants, and ignores the body. It avoids undici's pool: V8 optimises undici's parser with
 * the first responses, which costs 60 ms and 12 MB, and a backend without load gets no other responses.
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
