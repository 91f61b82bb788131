// `npm start` as a newcomer uses it: the console works while the agent's collector is still being fetched, one link logs in, printed
// commands work unchanged in a shell, Ctrl-C stops everything, a second start continues with the same data and key, and a busy port is
// reported in one sentence.
import { type AddressInfo, createServer } from "node:net";
import { once } from "node:events";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { execa } from "execa";
import type { Locator } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CATALOGUE, toolPath } from "../../hack/fetch-tools.ts";
import { acquireLock } from "../../hack/lock.mjs";
import { cachedPath, type Tool } from "../../hack/tools/obtain.ts";
import { openBrowser, openPage } from "../fixtures/browser.ts";
import { sendVisits, visit } from "../fixtures/shop-visits.ts";
import { call, eventually, freePorts, readIfThere, temporaryFolder, TestProcess } from "../fixtures/processes.ts";

const LISTENERS = [
  "API_LISTEN",
  "ALERTING_LISTEN",
  "HEALTH_LISTEN",
  "EVALUATOR_LISTEN",
  "PROXY_LISTEN",
  "AGENT_HEALTH_LISTEN",
  "OTLP_GRPC_LISTEN",
  "OTLP_HTTP_LISTEN",
];
const COLLECTOR = "otelcol-host";
const collector = CATALOGUE.find(({ name }) => name === COLLECTOR) as Tool;
const LINK = /^ {2}(http:\/\/\S+\/#\/login\/([\w-]+))$/gm;
/** Responses before there is a session, and for a link that was already used. */
const REFUSED = /status of 401/;

let folder: ReturnType<typeof temporaryFolder>;
let env: NodeJS.ProcessEnv;
let first: TestProcess;
/** The collector comes to its place in the cache. */
let bringCollector: () => void;

beforeAll(async () => {
  folder = temporaryFolder();
  env = { ...(await ownPorts()), ...(await cacheWithoutCollector()) };
  first = start("first.out");
});
afterAll(async () => {
  await first?.end();
  folder?.[Symbol.dispose]();
});

async function ownPorts(): Promise<Record<string, string>> {
  const ports = await freePorts(LISTENERS.length);
  return Object.fromEntries(LISTENERS.map((name, index) => [name, `127.0.0.1:${ports[index]}`]));
}

/** A cache of programs in which this process seems to be bringing the collector; nothing is on PATH. */
async function cacheWithoutCollector(): Promise<Record<string, string>> {
  const cache = join(folder.path, "cache/atherops/tools");
  for (const tool of CATALOGUE.filter(({ name }) => /^(victoria-metrics|vmalert)$/.test(name))) {
    mkdirSync(dirname(cachedPath(tool, { cache })), { recursive: true });
    symlinkSync(await toolPath(tool.name), cachedPath(tool, { cache }));
  }
  const kept = cachedPath(collector, { cache });
  const release = await acquireLock(`${kept}.lock`);
  const program = await toolPath(COLLECTOR);
  bringCollector = () => {
    symlinkSync(program, kept);
    release();
  };
  return { XDG_CACHE_HOME: join(folder.path, "cache"), PATH: join(folder.path, "nothing") };
}

/** The output is a file that only its owner can read, so that links are printed to it. */
function start(log: string, more: NodeJS.ProcessEnv = {}): TestProcess {
  const file = join(folder.path, log);
  writeFileSync(file, "", { mode: 0o600 });
  return new TestProcess(["hack/start.ts", "--data", join(folder.path, "data")], { ...env, ...more }, file);
}

async function printedLines(started: TestProcess): Promise<string> {
  await eventually("the lines to copy", async () => started.ended || started.log.includes("Ctrl-C stops everything"), 150_000);
  expect(started.ended, started.log).toBe(false);
  return /Try these commands.*?:\n([\s\S]*)\nCtrl-C/.exec(started.log)?.[1] ?? "";
}

const linksIn = (started: TestProcess): { link: string; code: string }[] =>
  [...started.log.matchAll(LINK)].map(([, link = "", code = ""]) => ({ link, code }));

async function paste(lines: string, what: string): Promise<string> {
  const blocks = lines.split(/\n\n/);
  const find = (words: string): string => blocks.find((block) => block.includes(words)) ?? "exit 1";
  return (await execa("bash", ["-c", `${find("TOKEN=")}\n${find(what)}`])).stdout;
}

test("while the collector is missing, one link logs in, and the agent starts as soon as the collector is there", async () => {
  await eventually("a link", async () => first.ended || linksIn(first).length > 0, 150_000);
  const [{ link, code } = { link: "", code: "" }] = linksIn(first);
  const origin = new URL(link).origin;
  await using browser = await openBrowser();
  await using opened = await openPage(browser, origin, {}, REFUSED);
  const { page, complaints } = opened;
  await page.goto(link);
  await page.getByText("waits for its collector: ").waitFor();
  await page.getByText(`${COLLECTOR} ${collector.version}: waiting for process ${process.pid}, which is fetching it`).waitFor();
  await page.getByText("Not set up yet").waitFor();
  expect(page.url()).toBe(`${origin}/#/overview`);
  await using other = await openPage(browser, origin, {}, REFUSED);
  await other.page.goto(link);
  await other.page.getByText("The login link failed: ").waitFor();
  await other.page.getByLabel("Password").waitFor();
  expect(other.page.url()).not.toContain(code);

  bringCollector();
  await page.goto(`${origin}/#/fleet`);
  await page.getByRole("img", { name: "online" }).waitFor({ timeout: 150_000 });
  await page.getByText("waits for its collector").waitFor({ state: "detached" });
  for (const log of ["backend.out", "agent.out"]) expect(readIfThere(join(folder.path, "data", log))).not.toContain(code);
  expect([...complaints, ...other.complaints]).toEqual([]);
});

test("shows its own state only to users who have logged in", async () => {
  const api = `http://${env["API_LISTEN"]}`;
  expect((await call("GET", `${api}/console/settings.json`)).json).toMatchObject({ isLocalStart: true });
  expect((await call("GET", `${api}/console/start.json`)).status).toBe(401);
});

test("a new user gets from the link to a slow request and its logs with four clicks", async () => {
  await printedLines(first);
  const otlp = `http://${env["OTLP_HTTP_LISTEN"]}`;
  const visits = Array.from({ length: 40 }, (_, at) => visit(at, Date.now() - 60_000 + at * 1000, at === 17));
  await sendVisits(otlp, visits.flat());
  const { link } = linksIn(first).at(-1) ?? { link: "" };
  await using browser = await openBrowser();
  await using opened = await openPage(browser, new URL(link).origin, {}, REFUSED);
  const { page, complaints } = opened;
  const times: string[] = [];
  const startedAt = performance.now();
  const click = async (what: Locator): Promise<void> => {
    await what.click();
    times.push(`${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  };
  await page.goto(link);
  await click(page.getByRole("link", { name: "Traces" }));
  // New data is queried until it has arrived; this does not count as a click.
  const slowest = page.getByRole("row").first().filter({ hasText: "650 ms" });
  await click(page.getByRole("button", { name: "Slowest first" }));
  // A refresh gives up the request before it, which a slow machine must have the time to answer.
  const refresh = async (): Promise<false> => (await page.getByRole("button", { name: "Refresh" }).click(), false);
  const isShown = async (): Promise<true> => (await slowest.waitFor({ timeout: 10_000 }), true);
  await eventually("the slow request is the first", async () => await isShown().catch(refresh), 150_000);
  await click(slowest.getByRole("link", { name: "shop GET /cart" }));
  await click(page.getByRole("link", { name: "Logs of this trace" }));
  await page.getByText("lock wait timeout exceeded; the cart is given up").waitFor();
  console.log(
    `${times.length} clicks, at ${times.join(", ")}; its logs are there after ${((performance.now() - startedAt) / 1000).toFixed(1)} s`,
  );
  expect(complaints).toEqual([]);
});

test("the commands that npm start prints work unchanged, Ctrl-C stops in order, and a second start continues", async () => {
  const lines = await printedLines(first);
  expect(await eventually("memory", async () => (await paste(lines, "# memory")).includes('"__name__":"system_memory_usage_bytes"'))).toBe(
    true,
  );
  expect(await eventually("the log line", async () => (await paste(lines, "# write a log line")).includes('"message":"hello from '))).toBe(
    true,
  );
  expect(await eventually("the span", async () => (await paste(lines, "# send a span")).includes('"Operation":"first light"'))).toBe(true);
  expect(first.log).not.toContain(readIfThere(join(folder.path, "data/backend/secrets/admin-password")).trim() || "no password");
  // The output at the end has a separate link, because the earlier one may have been used or be too old.
  expect(new Set(linksIn(first).map(({ code }) => code)).size).toBe(2);

  expect(await first.end("SIGINT")).toBe(0);
  expect(first.log).toMatch(/the agent has stopped\nthe backend has stopped/);

  await using second = start("second.out");
  const again = await printedLines(second);
  expect(
    await eventually("the line of the first run", async () =>
      (await paste(again, "# write a log line")).includes('"message":"hello from '),
    ),
  ).toBe(true);
  expect(linksIn(second)).toHaveLength(1);
  expect(await second.end("SIGINT")).toBe(0);
});

test("reports a port in use in one sentence", async () => {
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const { port } = holder.address() as AddressInfo;
  await using started = start("busy.out", { ...(await ownPorts()), OTLP_HTTP_LISTEN: `127.0.0.1:${port}` });
  await eventually("its end", async () => started.ended);
  holder.close();
  expect(started.child.exitCode).toBe(1);
  expect(started.log.trim().split("\n").at(-1)).toBe(
    `npm start: port 127.0.0.1:${port} (OTLP over HTTP) is in use: stop what listens there, or set OTLP_HTTP_LISTEN=127.0.0.1:<another port>`,
  );
});

test("reports an unknown option in one sentence, with exit code 2", async () => {
  const { exitCode, stderr } = await execa(process.execPath, ["hack/start.ts", "--port", "8081"], { reject: false });
  expect([exitCode, stderr]).toEqual([2, "npm start: Unknown option '--port': see `npm start -- --help`"]);
});
