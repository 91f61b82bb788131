// Sends the examples of the OTLP specification (github.com/open-telemetry/opentelemetry-proto, examples) with current times.
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface ExampleResult {
  readonly file: string;
  readonly status: number;
  /** The message of a partial success or of an error; empty: everything is stored. */
  readonly message: string;
}

const FILES = { "logs.json": "logs", "events.json": "logs", "trace.json": "traces", "metrics.json": "metrics" } as const;

export async function sendExamples(url: string, token: string, folder: string): Promise<ExampleResult[]> {
  const results: ExampleResult[] = [];
  const seconds = Math.floor(Date.now() / 1000);
  for (const [file, signal] of Object.entries(FILES)) {
    // The examples are of 2018.
    const body = readFileSync(join(folder, file), "utf8").replaceAll(/"1[5-7]\d{8}(\d{9})"/g, `"${seconds}$1"`);
    const answer = await fetch(`${url}/v1/${signal}`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body,
    });
    const text = await answer.text();
    const { message, partialSuccess } = JSON.parse(text) as { message?: string; partialSuccess?: { errorMessage?: string } };
    results.push({ file, status: answer.status, message: message ?? partialSuccess?.errorMessage ?? "" });
  }
  return results;
}
