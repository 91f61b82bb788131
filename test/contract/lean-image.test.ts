// The program of the lean image, assembled as in Dockerfile.backend: the backend without the packages of the embedded engines. Invariant:
// with external engines nothing is missing, and if one of these packages is needed, the backend says which setting to add.
import { cpSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bundleBackend, EXTERNAL } from "../../hack/bundle-backend.ts";
import { login, makeTenant, startBackend, type BackendPlace } from "../fixtures/backend-process.ts";
import { FIRST_PASSWORD, startDistributedEngines, type DistributedEngines } from "../fixtures/distributed.ts";
import { allNamed, sendOneOfEach, storedNames } from "../fixtures/one-of-each.ts";
import { NO_POSTGRES, postgresBinaries } from "../fixtures/postgres.ts";
import { call, eventually, ROOT, temporaryFolder, TestProcess } from "../fixtures/processes.ts";

const DOCKERFILE = readFileSync(join(ROOT, "Dockerfile.backend"), "utf8");

/**
 * The packages that Dockerfile.backend copies into a folder, relative to node_modules: those of all images, or those of the embedded
 * engines.
 */
function laidInto(folder: string): string[] {
  const moves = [...DOCKERFILE.matchAll(/mv (node_modules\S+(?: node_modules\S+)*) (\S+)/g)].filter(([, , to = ""]) =>
    to.startsWith(folder),
  );
  return moves.flatMap(([, from = ""]) => from.split(" ")).map((path) => path.replace("node_modules/", ""));
}

/** Copies the bundle and its packages (no links, because Node.js searches for packages at the target of a link). Returns the program. */
async function layOut(folder: string): Promise<string> {
  await bundleBackend(join(folder, "backend"));
  for (const path of laidInto("/all")) cpSync(join(ROOT, "node_modules", path), join(folder, "node_modules", path), { recursive: true });
  return join(folder, "backend/atherops-backend.js");
}

describe.skipIf(!postgresBinaries)(`the lean image's program${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  const app = temporaryFolder();
  let program: string;
  let engines: DistributedEngines;
  let place: BackendPlace;

  beforeAll(async () => {
    program = await layOut(app.path);
    engines = await startDistributedEngines();
    place = await engines.place("lean");
  });

  afterAll(async () => {
    await engines?.[Symbol.asyncDispose]();
    app[Symbol.dispose]();
  });

  test("contains the bundle and the packages outside of it, and ClickHouse only in the image with engines", () => {
    expect(/^ENTRYPOINT \["node", .*"(.*)"\]$/m.exec(DOCKERFILE)?.[1]).toBe("/app/backend/atherops-backend.js");
    expect(laidInto("/engines")).toEqual(["chdb", "@chdb", "@clickhouse/client-common"]);
    expect(readdirSync(join(app.path, "node_modules"))).toEqual(["@node-rs"]);
    const all = [...laidInto("/all"), ...laidInto("/engines")];
    for (const name of EXTERNAL) expect(all).toContain(all.includes(name) ? name : dirname(name));
  });

  test("with external engines stores and returns metrics, logs and spans, and accepts a rule", async () => {
    await using _backend = await startBackend(place, [], program);
    const operator = await login(place.apiUrl, "admin@localhost", FIRST_PASSWORD);
    const { token, apiKey } = await makeTenant(place.apiUrl, operator, "lean");
    await sendOneOfEach(place.apiUrl, apiKey, "a name");
    const stored = async () => (await engines.flushSamples(), await storedNames(place.apiUrl, token));
    await expect.poll(stored, { timeout: 60_000 }).toEqual(allNamed("a name"));
    const rule = { name: "it is there", severity: "info", expr: "one_of_each > 41", for: "0s", enabled: true };
    const made = await call("POST", `${place.alertingUrl}/rules`, { bearer: token, body: rule });
    expect(made.status, made.text).toBe(201);
  });

  test("without CLICKHOUSE_URL reports in one sentence what to set", async () => {
    const { CLICKHOUSE_URL: _none, ...env } = place.env;
    await using backend = new TestProcess([program, "serve"], env, join(app.path, "refused.out"));
    await eventually("its end", async () => backend.ended);
    expect(backend.child.exitCode).toBe(2);
    expect(backend.log).toMatch(/^atherops-backend: the embedded ClickHouse \(chDB\) is not installed here: set CLICKHOUSE_URL,.*\n$/m);
    expect(backend.log).not.toContain("    at ");
  });
});
