// The login that the embedded engines ask for on their ports, so that another user of the machine, who may reach every port of the
// loopback, reads and writes nothing. Invariant: the password is made once and is only ever in its file, which its owner alone may read,
// and in this process: engines are given the file's name, never the password in an argument or a variable.
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { writeDurably, makeFolder } from "../../common/files.ts";

const USER = "atherops";
const PASSWORD = /^[\w-]{20,}$/;

/** A URL as `fetch` and engines take it, and what they are to send along for the user:password that it held. */
export interface LoginOfUrl {
  readonly url: string;
  readonly user: string;
  readonly password: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface EngineLogin {
  /** For a program built on VictoriaMetrics' HTTP server. */
  readonly flags: readonly string[];
  /** The same URL with the login in it. */
  in(url: string): string;
}

/** Makes the password if there is none yet. Without a file: no login. */
export function engineLogin(passwordFile: string | undefined): EngineLogin {
  if (passwordFile === undefined) return { flags: [], in: (url) => url };
  const password = readOrMake(passwordFile);
  return {
    flags: [`-httpAuth.username=${USER}`, `-httpAuth.password=file://${resolve(passwordFile)}`],
    in: (url) => url.replace("://", `://${USER}:${password}@`),
  };
}

/** Takes the user and password out of a URL. */
export function loginOf(urlWithLogin: string): LoginOfUrl {
  const url = new URL(urlWithLogin);
  const [user, password] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
  url.username = url.password = "";
  const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
  return { url: url.href.replace(/\/+$/, ""), user, password, headers: user || password ? { authorization } : {} };
}

/** A file that holds none, as a machine that lost power left it of an earlier version, is written anew. */
function readOrMake(file: string): string {
  const kept = existsSync(file) ? readFileSync(file, "utf8").trim() : "";
  if (PASSWORD.test(kept)) return kept;
  makeFolder(dirname(file), 0o700);
  const password = randomBytes(32).toString("base64url");
  writeDurably(file, password);
  return password;
}
