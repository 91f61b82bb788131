// The command-line client as a separate program, with a real backend: the commands of an operator's first day.
import { spawn, spawnSync } from "node:child_process";
import { closeSync, openSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { baseEnvironment, eventually, ROOT, signedPost } from "../fixtures/processes.ts";

const backend = backendOfFile();
let key: string;

const program = join(ROOT, "backend", "cli", "bin", "atherops.ts");
const environment = () => ({ ...baseEnvironment(), XDG_CONFIG_HOME: backend.folder, ATHEROPS_URL: backend.apiUrl });

function atherops(args: string[], input = ""): { code: number | null; out: string; err: string } {
  const run = spawnSync(process.execPath, [program, ...args], { env: environment(), input, encoding: "utf8", timeout: 120_000 });
  return { code: run.status, out: run.stdout, err: run.stderr };
}

async function sendLog(message: string): Promise<void> {
  const record = { timeUnixNano: `${Date.now()}000000`, severityText: "ERROR", body: { stringValue: message } };
  const resource = { attributes: [{ key: "service.name", value: { stringValue: "shop" } }] };
  const body = JSON.stringify({ resourceLogs: [{ resource, scopeLogs: [{ logRecords: [record] }] }] });
  expect((await signedPost(backend.apiUrl, "/ingest/logs/otlp", key, body)).status).toBe(204);
}

test("leads from the first password to a key, a log line and a span", async () => {
  const password = readFileSync(join(backend.dataDir, "secrets", "admin-password"), "utf8");
  expect(atherops(["login"], password)).toMatchObject({ code: 0, err: `logged in to ${backend.apiUrl} as admin@localhost\n` });
  key = atherops(["keys", "create", "first-key"]).out.trim();
  await sendLog("out of stock");
  const line = await eventually("the log line", async () => atherops(["logs", "--level", "error", "--grep", "STOCK"]).out);
  expect(line).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z {2}error {2}first-key\/shop {2}out of stock\n$/);
  const span = {
    traceId: "ab".repeat(16),
    spanId: "cd".repeat(8),
    name: "GET /",
    startTimeUnixNano: `${Date.now()}000000`,
    endTimeUnixNano: `${Date.now()}000000`,
  };
  await signedPost(backend.apiUrl, "/ingest/traces", key, JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: [span] }] }] }));
  const spans = await eventually("the span", async () => atherops(["traces", "--trace-id", "AB".repeat(16), "--json"]).out);
  expect(JSON.parse(spans)).toMatchObject({ TraceID: span.traceId, Operation: "GET /" });
});

test("`tail` shows new records and ends with exit code 0 on Ctrl-C; the histogram and the fields count all", async () => {
  const tail = spawn(process.execPath, [program, "tail", "--json", "--regex", "^(again|last)$"], {
    env: environment(),
    stdio: ["ignore", "pipe", "inherit"],
  });
  const messages: string[] = [];
  createInterface({ input: tail.stdout }).on("line", (line) => messages.push((JSON.parse(line) as { message: string }).message));
  await eventually("the tail has begun", async () => {
    await sendLog("again");
    return messages.length > 0;
  });
  for (const message of ["not for it", "last"]) await sendLog(message);
  await eventually("the last one", async () => messages.includes("last"));
  expect(new Set(messages)).toEqual(new Set(["again", "last"]));
  const exit = new Promise((resolve) => tail.on("exit", (code, signal) => resolve([code, signal])));
  tail.kill("SIGINT");
  expect(await exit).toEqual([0, null]);
  const drawn = atherops(["logs", "--regex", "^last$", "--histogram", "--field", "source"]);
  expect([drawn.code, drawn.err]).toEqual([0, ""]);
  expect(drawn.out).toMatch(/^1 record, 2m a line[^]*\n[^\n]+ {2}1 {2}▒+\n[^]*error 1\nFIELD +COUNT +VALUE\nsource +1 +shop\n$/);
});

test("reports output that cannot be written", () => {
  const full = openSync("/dev/full", "w");
  const run = spawnSync(process.execPath, [program, "logs"], { env: environment(), stdio: ["ignore", full, "pipe"], encoding: "utf8" });
  closeSync(full);
  expect([run.status, run.stderr]).toEqual([1, "atherops: the output cannot be written: ENOSPC\n"]);
});

test("bin/atherops runs from any folder and under another name, with the client's exit code", () => {
  const link = join(backend.folder, "linked");
  symlinkSync(join(ROOT, "bin", "atherops"), link);
  const run = spawnSync(link, ["keys", "remove", "nope"], { env: environment(), cwd: backend.folder, encoding: "utf8" });
  expect([run.status, run.stdout, run.stderr]).toEqual([
    1,
    "",
    expect.stringMatching(/^atherops: .*\[404 not_found\]: `atherops keys` lists the ids\n$/),
  ]);
});

test("a closed pipe is no error", () => {
  const run = spawnSync(
    "bash",
    ["--norc", "-c", `set -o pipefail; "$0" "$1" logs --json | head -n 1 | grep -c message`, process.execPath, program],
    {
      env: environment(),
      encoding: "utf8",
    },
  );
  expect([run.status, run.stdout, run.stderr]).toEqual([0, "1\n", ""]);
});
