// VictoriaLogs as a separate process with an empty folder, for comparison. It is built from its Go module and cached (hack/fetch-tools.ts).
// It receives the records as OTLP/protobuf, and answers before they are on disk.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";
import { join } from "node:path";
import { toolPath } from "../../../hack/fetch-tools.ts";
import { eventually, freePorts } from "../../fixtures/processes.ts";

const INSERT = "/insert/opentelemetry/v1/logs";

export interface VictoriaLogs extends AsyncDisposable {
  readonly pid: number;
  readonly url: string;
  insert(protobuf: Buffer): Promise<void>;
  /** Resolves when queries find everything that was inserted. */
  flush(): Promise<void>;
  count(): Promise<number>;
  /** Size of its folder, merged. */
  bytes(): Promise<number>;
}

export async function startVictoriaLogs(folder: string): Promise<VictoriaLogs> {
  const [port = 0] = await freePorts(1);
  const url = `http://127.0.0.1:${port}`;
  const out = openSync(join(folder, "victoria-logs.out"), "a");
  const flags = [`-storageDataPath=${join(folder, "victoria-logs")}`, `-httpListenAddr=127.0.0.1:${port}`, "-retentionPeriod=100y"];
  const child = spawn(await toolPath("victoria-logs"), flags, { env: {}, stdio: ["ignore", out, out] });
  const ended = once(child, "exit");
  const get = async (path: string): Promise<string> => {
    const answer = await fetch(`${url}${path}`);
    if (!answer.ok) throw new Error(`VictoriaLogs: ${answer.status} ${path}`);
    return await answer.text();
  };
  const peer: VictoriaLogs = {
    pid: child.pid ?? 0,
    url,
    async insert(protobuf) {
      const headers = { "content-type": "application/x-protobuf" };
      const answer = await fetch(`${url}${INSERT}`, { method: "POST", headers, body: protobuf as Uint8Array<ArrayBuffer> });
      if (!answer.ok) throw new Error(`VictoriaLogs: ${answer.status} ${await answer.text()}`);
      await answer.arrayBuffer();
    },
    flush: async () => void (await get("/internal/force_flush")),
    count: async () => Number((JSON.parse(await get("/select/logsql/query?query=*%20%7C%20count()%20n")) as { n: string }).n),
    async bytes() {
      await get("/internal/force_merge");
      const text = execFileSync("du", ["-sb", join(folder, "victoria-logs")], { encoding: "utf8" });
      return Number(text.split("\t")[0]);
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
    },
  };
  try {
    await eventually("VictoriaLogs is ready", async () => (await fetch(`${url}/health`)).ok);
    return peer;
  } catch (error) {
    await peer[Symbol.asyncDispose]();
    throw error;
  }
}
