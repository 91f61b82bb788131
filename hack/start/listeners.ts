// Where the programs of `npm start` listen: as the environment says, or as usual.
import { createServer } from "node:net";
import { StartError } from "./start-error.ts";

/** Variable, its default, and what listens there. */
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

export function listenOf(wanted: (typeof LISTENERS)[number][0]): string {
  const [, fallback] = LISTENERS.find(([variable]) => variable === wanted) ?? ["", ""];
  return process.env[wanted] ?? fallback;
}

/** Every port is tried before anything starts, so that a busy one is one sentence and not a half-started product. */
export async function checkPorts(): Promise<void> {
  for (const [variable, , what] of LISTENERS) {
    const listen = listenOf(variable);
    const [host, port] = [listen.slice(0, listen.lastIndexOf(":")), Number(listen.slice(listen.lastIndexOf(":") + 1))];
    if (!(await isFree(host, port))) {
      throw new StartError(`port ${listen} (${what}) is in use: stop what listens there, or set ${variable}=127.0.0.1:<another port>`);
    }
  }
}

async function isFree(host: string, port: number): Promise<boolean> {
  const server = createServer();
  const free = await new Promise<boolean>((done) => {
    server.once("error", () => done(false));
    server.listen(port, host, () => done(true));
  });
  if (free) await new Promise((done) => server.close(done));
  return free;
}
