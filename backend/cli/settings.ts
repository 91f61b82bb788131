// The environment of the command-line client, and its streams. No other file of cli/ reads the environment.
//
//   ATHEROPS_URL            the backend, e.g. https://telemetry.example.com; default: where the last login went
//   ATHEROPS_PASSWORD_FILE  reads the password from this file; an expired session then logs in again by itself
//   ATHEROPS_PROFILE        the name of one of several sessions
//   XDG_CONFIG_HOME         the session is kept in $XDG_CONFIG_HOME/atherops/session.json (default ~/.config), mode 0600
//   NODE_EXTRA_CA_CERTS     a private CA's certificate (read by Node.js)
import { homedir } from "node:os";
import { join } from "node:path";

export interface ClientSettings {
  readonly url: string | undefined;
  readonly passwordFile: string | undefined;
  /** The session with this name; undefined: the one without a name. */
  readonly profile?: string | undefined;
  readonly sessionFile: string;
}

export function readClientSettings(env: NodeJS.ProcessEnv = process.env): ClientSettings {
  const config = env["XDG_CONFIG_HOME"] || join(homedir(), ".config");
  return {
    url: env["ATHEROPS_URL"] || undefined,
    passwordFile: env["ATHEROPS_PASSWORD_FILE"] || undefined,
    profile: env["ATHEROPS_PROFILE"] || undefined,
    sessionFile: join(config, "atherops", "session.json"),
  };
}

/** Standard input: a terminal, a pipe or a file. */
export type Input = NodeJS.ReadableStream & { readonly isTTY?: boolean };

/** Terminal, network and settings of one run, so that a test can replace them. */
export interface World {
  settings: ClientSettings;
  stdin: Input;
  stdout: NodeJS.WritableStream;
  stderr: NodeJS.WritableStream;
  /** Ends a live tail. */
  signal?: AbortSignal;
  fetch?: typeof fetch;
}
