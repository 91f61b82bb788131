// Loki as a separate process with an empty folder, for comparison as an alternative log store. It receives the same OTLP/JSON bodies as the
// backend. It is built from its Go module and cached (hack/fetch-tools.ts); its settings are in loki.yaml.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { toolPath } from "../../../hack/fetch-tools.ts";
import { eventually, freePorts, readIfThere } from "../../fixtures/processes.ts";

export const LOKI_PATH = "/otlp/v1/logs";
const READY_WITHIN_MS = 120_000;
const QUERY_WITHIN_MS = 60_000;
/** Counts the records of the service of otlp-load.ts. */
const COUNT = 'sum(count_over_time({service_name="checkout"}[1h]))';

export interface Loki extends AsyncDisposable {
  readonly pid: number;
  readonly url: string;
  /** Records of the last hour, as its own query counts them. */
  count(): Promise<number>;
}

/** Keeps everything in `folder`, which the caller removes; resolves when it is ready. `flags` go before its settings. */
export async function startLoki(folder: string, flags: readonly string[] = []): Promise<Loki> {
  const [http = 0, grpc = 0] = await freePorts(2);
  mkdirSync(folder);
  const url = `http://127.0.0.1:${http}`;
  const out = openSync(join(folder, "loki.out"), "a");
  const settings = [`-config.file=${join(import.meta.dirname, "loki.yaml")}`, "-config.expand-env=true"];
  const child = spawn(await toolPath("loki"), [...settings, ...flags], {
    env: { PATH: process.env["PATH"], LOKI_HTTP_PORT: String(http), LOKI_GRPC_PORT: String(grpc), LOKI_FOLDER: folder },
    stdio: ["ignore", out, out],
  });
  const ended = once(child, "exit");
  const loki: Loki = {
    pid: child.pid ?? 0,
    url,
    count: () => count(url),
    // Killed, because its unwritten data is not needed.
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
    },
  };
  const isReady = async (): Promise<boolean> => child.exitCode !== null || (await fetch(`${url}/ready`)).ok;
  await eventually("Loki is ready", isReady, READY_WITHIN_MS).catch(async (error: unknown) => {
    await loki[Symbol.asyncDispose]();
    throw error;
  });
  if (child.exitCode === null) return loki;
  throw new Error(`Loki ended with ${child.exitCode}:\n${readIfThere(join(folder, "loki.out")).slice(-4000)}`);
}

async function count(url: string): Promise<number> {
  const query = new URLSearchParams({ query: COUNT }).toString();
  const answer = await fetch(`${url}/loki/api/v1/query?${query}`, { signal: AbortSignal.timeout(QUERY_WITHIN_MS) });
  if (!answer.ok) throw new Error(`Loki's query: ${answer.status} ${await answer.text()}`);
  const { data } = (await answer.json()) as { data: { result: { value: [number, string] }[] } };
  const [found] = data.result;
  return Number(found?.value[1] ?? 0);
}
