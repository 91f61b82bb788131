// Reads the listen addresses of `npm start` from the environment, with defaults, and checks them before any program starts.
import { createServer } from "node:net";
import { StartError } from "./program.ts";

/** Variable, default and description of each address. */
const LISTENERS = [
  ["API_LISTEN", "127.0.0.1:8080", "the API"],
  ["ALERTING_LISTEN", "127.0.0.1:8082", "the alerting service"],
  ["HEALTH_LISTEN", "127.0.0.1:9090", "the backend's health"],
  ["EVALUATOR_LISTEN", "127.0.0.1:8880", "the rule evaluator"],
  ["PROXY_LISTEN", "127.0.0.1:9599", "the signing proxy"],
  ["AGENT_HEALTH_LISTEN", "127.0.0.1:9598", "the agent's health"],
  ["OTLP_GRPC_LISTEN", "127.0.0.1:4317", "OTLP over gRPC"],
  ["OTLP_HTTP_LISTEN", "127.0.0.1:4318", "OTLP over HTTP"],
] as const;

export function listenAddress(name: (typeof LISTENERS)[number][0]): string {
  const [, fallback] = LISTENERS.find(([variable]) => variable === name) ?? ["", ""];
  return process.env[name] ?? fallback;
}

/**
 * Tries every port before anything starts, so that a busy port causes one clear message and not a half-started product. Throws StartError.
 * Each address needs a host, because `npm start` prints the addresses for copying.
 */
export async function checkPorts(): Promise<void> {
  for (const [variable, fallback, what] of LISTENERS) {
    const listen = listenAddress(variable);
    const [, host, port] = /^([^:[\]]+|\[[^\]]+\]):(\d{1,5})$/.exec(listen) ?? [];
    if (host === undefined || Number(port) > 65_535)
      throw new StartError(`${variable}=${listen} (${what}) is no address with a port: write it as ${fallback}`, { exitCode: 2 });
    const refused = await refusal(host.replace(/^\[(.*)\]$/, "$1"), Number(port));
    if (refused === "EADDRINUSE")
      throw new StartError(`port ${listen} (${what}) is in use: stop what listens there, or set ${variable}=127.0.0.1:<another port>`);
    if (refused !== undefined) throw new StartError(`${variable}=${listen} (${what}) cannot be listened at: ${refused}`);
  }
}

/** Undefined if the port is free. */
async function refusal(host: string, port: number): Promise<string | undefined> {
  const server = createServer();
  const refused = await new Promise<string | undefined>((done) => {
    server.once("error", (error: NodeJS.ErrnoException) => done(error.code ?? error.message));
    server.listen(port, host, () => done(undefined));
  });
  if (refused === undefined) await new Promise((done) => server.close(done));
  return refused;
}
