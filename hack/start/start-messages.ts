// Builds the messages of `npm start`: one when all programs run, and one before that if the collector must be downloaded or built. Invariant:
// they contain no password and no token; the login link is printed only if no other user can read the output.
import { fstatSync } from "node:fs";
import { listenAddress } from "./listeners.ts";

export interface StartInfo {
  /** The folder for all data. */
  readonly data: string;
  readonly passwordFile: string;
  readonly tryLog: string;
  /** For a link that logs in once. */
  readonly loginCode: string | undefined;
}

export function apiUrl(): string {
  return `http://${listenAddress("API_LISTEN")}`;
}

export function adminEmail(): string {
  return process.env["ADMIN_EMAIL"] ?? "admin@localhost";
}

/** A terminal, a pipe to a program, or a file that only its owner can read. */
export function isPrivate(descriptor: number): boolean {
  const output = fstatSync(descriptor);
  return !output.isFile() || (output.mode & 0o077) === 0;
}

/** Printed while the collector is downloaded or built. */
export function backendReady({ passwordFile, loginCode }: StartInfo): string {
  return `
The backend and the console are running. The agent starts as soon as its collector is built or downloaded.
${consoleSection(passwordFile, loginCode)}`;
}

function consoleSection(passwordFile: string, loginCode: string | undefined): string {
  const logIn = `  e-mail    ${adminEmail()}\n  password  in ${passwordFile}`;
  if (loginCode === undefined) return `\nThe console:\n\n  ${apiUrl()}/\n${logIn}\n`;
  return `
Open the console, already logged in (the link works once, within 10 minutes):

  ${apiUrl()}/#/login/${loginCode}

Or log in at ${apiUrl()}/
${logIn}
`;
}

export function nextSteps({ data, passwordFile, tryLog, loginCode }: StartInfo): string {
  const url = apiUrl();
  const email = adminEmail();
  const get = "curl -sG -w '\\n' -H \"Authorization: Bearer $TOKEN\"";
  return `
Running. The agent collects this machine's metrics and logs; everything is stored in ${data}.
Send OTLP to ${listenAddress("OTLP_GRPC_LISTEN")} (gRPC) or http://${listenAddress("OTLP_HTTP_LISTEN")}.

Try these commands in another terminal. If a response is empty in the first 30 seconds, run the command again:

  # a session token (15 minutes)
  TOKEN=$(printf '{"email":"${email}","password":"%s"}' "$(cat '${passwordFile}')" | curl -s ${url}/api/auth/login -H 'Content-Type: application/json' -d @- | sed 's/.*"token":"\\([^"]*\\)".*/\\1/')

  # memory of this machine, by state
  ${get} ${url}/query/prometheus/api/v1/query --data-urlencode 'query=system_memory_usage_bytes'

  # write a log line, and find it
  echo "hello from $(hostname)" >> '${tryLog}'; sleep 2
  ${get} ${url}/query/logs --data-urlencode 'q=hello from' -d limit=5

  # send a span, and find it
  curl -s http://${listenAddress("OTLP_HTTP_LISTEN")}/v1/traces -H 'Content-Type: application/json' -d '{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"try-me"}}]},"scopeSpans":[{"spans":[{"traceId":"'$(openssl rand -hex 16)'","spanId":"'$(openssl rand -hex 8)'","name":"first light","kind":1,"startTimeUnixNano":"'$(date +%s)000000000'","endTimeUnixNano":"'$(date +%s)500000000'"}]}]}]}'; sleep 2
  ${get} ${url}/query/traces -d service=try-me
${consoleSection(passwordFile, loginCode)}
Ctrl-C stops everything; \`npm start\` continues with the same data and key.`;
}
