// Breaks each layer of ARCHITECTURE.md ("Folders and layers") in a file, which lint must report, and checks that allowed imports pass. Each
// file has one line, in a separate folder with the repository's .oxlintrc.json.
import { globSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "..");
/** The folders of backend/ that engines may import. */
const BELOW_ENGINES = ["engines", "admission"];
const FOLDERS = readdirSync(join(ROOT, "backend"), { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== "node_modules")
  .map(({ name }) => name);

const type = (path: string) => `import type { X } from "${path}"; export type Y = X;`;

/** Layer, file, its text. */
const REFUSED: [layer: string, file: string, text: string][] = [
  ["agent/ imports agent/ and common/", "agent/a.ts", type("../backend/errors.ts")],
  ["agent/ imports agent/ and common/", "agent/a/b.ts", type("../../backend/errors.ts")],
  ["agent/ imports agent/ and common/", "agent/a/b/c.ts", type("../../../test/fixtures/processes.ts")],
  ["agent/ imports agent/ and common/", "agent/a/b/c/d.ts", type("../../../../hack/tools/obtain.ts")],
  ["agent/ imports agent/ and common/", "agent/a/late.ts", 'export const late = async () => await import("../../backend/errors.ts");'],
  ["agent/ imports agent/ and common/", "agent/a/passed-on.ts", 'export { ApiError } from "../../backend/errors.ts";'],
  ["agent/ imports agent/ and common/", "agent/a/star.ts", 'export * from "../../backend/errors.ts";'],
  ["agent/ imports agent/ and common/", "agent/a/winding.ts", type("../a/../../backend/errors.ts")],
  ["agent/ imports agent/ and common/", "agent/a/named.ts", type("@atherops/backend/errors.ts")],
  ["common/ has node: imports only", "common/package.ts", type("pino")],
  ["common/ has node: imports only", "common/scoped.ts", type("@fastify/swagger")],
  ["common/ has node: imports only", "common/settings.ts", type("../agent/settings.ts")],
  ["common/ has node: imports only", "common/process.ts", 'import { env } from "node:process"; export const home = env.HOME;'],
  ["common/ has node: imports only", "common/protocol/package.ts", type("undici")],
  ["backend/ imports backend/ and common/", "backend/a.ts", type("../agent/settings.ts")],
  ["backend/ imports backend/ and common/", "backend/a/b.ts", type("../../agent/proxy/body.ts")],
  ["backend/ imports backend/ and common/", "backend/a/b/c.ts", type("../../../agent/identity/execute.ts")],
  ["backend/ imports backend/ and common/", "backend/a/tool.ts", type("../../hack/fetch-tools.ts")],
  ["backend/ imports backend/ and common/", "backend/test.ts", type("../test/fixtures/processes.ts")],
  ["backend/ imports nothing of the CLI or the console", "backend/a/cli.ts", type("../cli/client.ts")],
  ["backend/ imports nothing of the CLI or the console", "backend/a/console.ts", type("../console/client.ts")],
  ["the console uses HTTP", "backend/console/a/errors.ts", type("../../errors.ts")],
  ...FOLDERS.filter((name) => !BELOW_ENGINES.includes(name)).flatMap((name): [string, string, string][] => [
    [`engines know no ${name}`, `backend/engines/${name}.ts`, type(`../${name}/x.ts`)],
    [`engines know no ${name}`, `backend/engines/a/${name}.ts`, type(`../../${name}/x.ts`)],
  ]),
  ["http knows no domain", "backend/http/identity.ts", type("../auth/identity.ts")],
  ["http knows no domain", "backend/http/a/store.ts", type("../../storage/logs/store.ts")],
  ["storage knows no decoder", "backend/storage/logs/columns.ts", type("../../ingest/otlp/columns.ts")],
  ["storage knows no query", "backend/storage/traces/page.ts", type("../../query/page.ts")],
  ["auth knows no tenants", "backend/auth/sso/users.ts", type("../../tenants/accounts/users.ts")],
  ["replicas know no storage", "backend/replicas/series.ts", type("../storage/metrics/series.ts")],
  ["http is no client", "backend/http/cli.ts", type("../cli/client.ts")],
  ["engines know no wiring", "backend/engines/a/serve.ts", type("../../serve.ts")],
  ["engines know no wiring", "backend/engines/a/stores.ts", type("../../stores.ts")],
  ["engines know no settings", "backend/engines/a/settings-of.ts", type("../../settings.ts")],
  ["engines know no protocol", "backend/engines/a/protocol.ts", type("../../../agent/protocol/signature.ts")],
  ["the program atherops talks HTTP", "backend/cli/errors.ts", type("../errors.ts")],
  ["the program atherops talks HTTP", "backend/cli/lock.ts", type("../operations/backup/lock.ts")],
  ["the program atherops talks HTTP", "backend/cli/package.ts", type("pino")],
  ["the program atherops talks HTTP", "backend/cli/version.ts", 'export { version } from "../package.json";'],
  ["the program atherops talks HTTP", "backend/cli/bin/errors.ts", type("../../errors.ts")],
  ["only settings.ts reads the environment", "agent/a/env.ts", 'export const home = process.env["HOME"];'],
  ["only settings.ts reads the environment", "backend/a/env.ts", 'export const home = process["env"].HOME;'],
  ["only settings.ts reads the environment", "backend/engines/env.ts", "export const read = (env = process.env) => env;"],
  ["only settings.ts reads the environment", "backend/cli/env.ts", 'import { env } from "node:process"; export const home = env.HOME;'],
  ["no circle, type imports counted", "backend/circle/a.ts", type("./b.ts")],
  ["no circle, type imports counted", "backend/circle/b.ts", 'import type { Y } from "./a.ts"; export type X = Y;'],
];

const ALLOWED: [file: string, text: string][] = [
  ["agent/ok.ts", type("./a/ok.ts")],
  ["agent/a/ok.ts", type("../common/ok.ts")],
  ["agent/a/b/ok.ts", type("../../common/ok.ts")],
  ["common/ok.ts", 'import { stat } from "node:fs/promises"; export type X = typeof stat;'],
  ["common/other.ts", type("./ok.ts")],
  ["agent/settings.ts", "export const read = (env = process.env) => env;"],
  ["backend/ok.ts", type("../common/protocol/signature.ts")],
  ["backend/a/ok.ts", type("../../common/ok.ts")],
  ["backend/a/b/ok.ts", type("../../../common/protocol/signature.ts")],
  ["backend/a/engine.ts", type("../engines/a/ok.ts")],
  ["backend/engines/ok.ts", type("../log.ts")],
  ["backend/storage/traces/ok.ts", type("../../replicas/ok.ts")],
  ["backend/auth/ok.ts", type("../http/ok.ts")],
  ["backend/engines/a/ok.ts", type("../../errors.ts")],
  ["backend/engines/a/common.ts", type("../../../common/ok.ts")],
  ["backend/engines/a/child.ts", type("../child.ts")],
  ["backend/cli/ok.ts", 'import { Command } from "commander"; import { X } from "./client.ts"; export const y = [Command, X];'],
  ["backend/cli/bin/ok.ts", type("../program.ts")],
  ["backend/cli/settings.ts", "export const read = (env = process.env) => env;"],
  ["backend/a/free.test.ts", type("../../hack/fetch-tools.ts")],
];

const RULES = new Set(["layers(imports)", "import(no-cycle)", "node(no-process-env)"]);
let folder: string;
/** File → the rules that it breaks. */
const broken = new Map<string, string[]>();

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "atherops-layers-"));
  const config = JSON.parse(readFileSync(join(ROOT, ".oxlintrc.json"), "utf8")) as { options: { typeAware: boolean }; jsPlugins: string[] };
  // No rule of layers needs types, and there are none of these files. Plugins are named relative to the repository.
  const options = { ...config.options, typeAware: false };
  const jsPlugins = config.jsPlugins.map((path) => join(ROOT, path));
  writeFileSync(join(folder, ".oxlintrc.json"), JSON.stringify({ ...config, options, jsPlugins }));
  for (const [file, text] of [...REFUSED.map(([, ...rest]) => rest), ...ALLOWED]) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), `${text}\n`);
  }
  const program = join(ROOT, "node_modules/oxlint/bin/oxlint");
  const { stdout } = await execa(process.execPath, [program, "--format=json"], { cwd: folder, reject: false });
  const { diagnostics } = JSON.parse(stdout) as { diagnostics: { code: string; filename: string }[] };
  for (const { code, filename } of diagnostics) if (RULES.has(code)) broken.set(filename, [...(broken.get(filename) ?? []), code]);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("a layer that lint enforces", () => {
  test.each(REFUSED)("%s: %s", (_layer, file) => {
    expect([...RULES]).toEqual(expect.arrayContaining(broken.get(file) ?? ["nothing refuses it"]));
  });

  test.each(ALLOWED)("allows %s", (file) => {
    expect(broken.get(file)).toBeUndefined();
  });
});

test("no file outside of the linter's rule reads the environment", () => {
  const around = /globalThis\.process|\benv\b[^;={}]*\}\s*=\s*process\b|process\s*\[\s*[`']env/;
  const sources = globSync("{agent,backend,common}/**/*.ts", { cwd: ROOT }).filter((file) => !/node_modules|\.test\.ts$/.test(file));
  expect(sources.filter((file) => around.test(readFileSync(join(ROOT, file), "utf8")))).toEqual([]);
});
