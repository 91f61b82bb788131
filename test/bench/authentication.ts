// `npm run bench -- authentication [--rounds 41] [--requests 10000]`: the guard of signed requests (backend/auth/signed-requests.ts) with a
// key that the cache knows, against the least that verification can be: `createHmac` and `timingSafeEqual` over the same message. Reach:
// ≤ 3 ×. CPU time, interleaved in one process. The guard's part: headers, their forms, the clock, the cache, revocation and kind, key age.
import { createHmac, timingSafeEqual } from "node:crypto";
import { parseArgs } from "node:util";
import type { onRequestAsyncHookHandler } from "fastify";
import { canonicalMessage, sign } from "../../common/protocol/signature.ts";
import { createSignedGuard } from "../../backend/auth/signed-requests.ts";
import { openDatabase } from "../../backend/engines/relational/database.ts";
import { createLog } from "../../backend/operations/log.ts";
import { accountsApp, registerHost } from "../fixtures/accounts-app.ts";
import { report, shown } from "../fixtures/measure.ts";
import { temporaryFolder } from "../fixtures/processes.ts";

const { values } = parseArgs({ options: { rounds: { type: "string", default: "41" }, requests: { type: "string", default: "10000" } } });
const rounds = Number(values.rounds);
const requests = Number(values.requests);

using folder = temporaryFolder();
await using database = await openDatabase({ dataDir: folder.path, log: createLog("silent") });
await using backend = await accountsApp(database);
const { api_key: apiKey } = await registerHost(backend, await backend.login());
// The first use is recorded in the database; from the second on the cache answers.
await backend.call("POST", "/ingest", { key: apiKey });

const path = "/ingest/logs/otlp";
const headers = sign(apiKey, "POST", path, backend.clock.ms / 1000);
const { "x-timestamp": timestamp = "", "x-signature": signature = "" } = headers;
const others = [
  "Host",
  "telemetry.example:8443",
  "Connection",
  "keep-alive",
  "Content-Type",
  "application/json",
  "Content-Length",
  "400000",
];
const rawHeaders = [...others, ...Object.entries(headers).flat()];
const reply = { header: () => reply };
type GuardArguments = Parameters<onRequestAsyncHookHandler>;
const guard = createSignedGuard({ keys: backend.keys, now: () => backend.clock.ms })("cluster", "host", "direct");

async function guarded(): Promise<void> {
  for (let index = 0; index < requests; index += 1) {
    const request = { raw: { rawHeaders, method: "POST", url: path }, headers: {} };
    await guard.call(backend.app, request as unknown as GuardArguments[0], reply as unknown as GuardArguments[1]);
  }
}

async function bare(): Promise<void> {
  for (let index = 0; index < requests; index += 1) {
    const expected = createHmac("sha256", apiKey)
      .update(canonicalMessage(timestamp, "POST", path))
      .digest();
    if (!timingSafeEqual(expected, Buffer.from(signature, "hex"))) throw new Error("the signature does not match");
  }
}

async function cpuUs(work: () => Promise<void>): Promise<number> {
  const start = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / requests;
}

const bareUs: number[] = [];
const guardUs: number[] = [];
for (let round = -3; round < rounds; round += 1) {
  const measured = { bare: await cpuUs(bare), guard: await cpuUs(guarded) };
  if (round < 0) continue;
  bareUs.push(measured.bare);
  guardUs.push(measured.guard);
}
report("authentication", values, {
  "CPU µs per request": {
    "createHmac + timingSafeEqual": shown(bareUs, 2),
    guard: shown(guardUs, 2),
    ratio: shown(
      guardUs.map((guard, index) => guard / (bareUs[index] ?? Number.NaN)),
      2,
    ),
  },
});
