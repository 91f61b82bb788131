// Runs the examples of docs/direct-ingest.md unchanged against a real backend.
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { type Tenant } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { call, eventually, ROOT } from "../fixtures/processes.ts";

const page = readFileSync(join(ROOT, "docs", "direct-ingest.md"), "utf8");
const backend = backendOfFile();
let tenant: Tenant;

beforeAll(async () => {
  tenant = await backend.tenant("direct");
});
function example(language: string): string {
  const blocks = [...page.matchAll(/^```(\w+)\n([^]*?)^```$/gm)].filter((block) => block[1] === language);
  expect(blocks).toHaveLength(1);
  return blocks[0]?.[2] ?? "";
}

test.each([
  ["bash", "bash", "example.sh", "shell"],
  ["python", "python3", "example.py", "python"],
  ["javascript", process.execPath, "example.mjs", "javascript"],
])("the %s example's sample, log record and span are stored for the key's tenant", async (language, program, file, name) => {
  if (spawnSync(program, ["--version"]).error) throw new Error(`${program} is not on this machine: install it, the page promises it`);
  const script = join(backend.folder, file);
  writeFileSync(script, example(language));
  const env = { PATH: process.env["PATH"], HOME: process.env["HOME"], BACKEND_URL: backend.apiUrl, API_KEY: tenant.apiKey };
  const run = spawnSync(program, [script], { env, encoding: "utf8", timeout: 60_000 });
  expect([run.status, run.stdout, run.stderr]).toEqual([0, "", ""]);

  const get = async (path: string) => (await call("GET", `${backend.apiUrl}${path}`, { bearer: tenant.token })).json;
  await eventually("the log record", async () => {
    const [row] = await get(`/query/logs?source=${name}`);
    return row?.level === "warn" && row.message.startsWith("hello from") && row.node === "direct-key";
  });
  await eventually("the span", async () => {
    const [span] = await get(`/query/traces?service=${name}`);
    return span?.Operation === "build" && span.DurationMs === 12_500;
  });
  await backend.shows("the sample", async () => {
    const query = encodeURIComponent(`build_duration_seconds{job="${name}"}`);
    const answer = await get(`/query/prometheus/api/v1/query?query=${query}`);
    return answer.data.result[0]?.value[1] === "12.5" && answer.data.result[0].metric.node === "direct-key";
  });
});

test("every example reports a rejection with the backend's message, not as a success", () => {
  const env = { PATH: process.env["PATH"], BACKEND_URL: backend.apiUrl, API_KEY: "ak_no-one-has-this-key" };
  for (const [program, file, words] of [
    ["bash", "example.sh", "unknown_key"],
    ["python3", "example.py", "401"],
    [process.execPath, "example.mjs", "unknown_key"],
  ] as const) {
    const run = spawnSync(program, [join(backend.folder, file)], { env, encoding: "utf8", timeout: 60_000 });
    expect([run.status === 0, `${run.stdout}${run.stderr}`.includes(words)], program).toEqual([false, true]);
  }
});
