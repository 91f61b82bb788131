// `npm run bench -- console [--only list,trace,tail,logs] [--stored 10000000] [--rows 100000] [--spans 5000] [--tail-seconds 120]
// [--tail-rate 1000] [--repetitions 5] [--seconds 10]`: the console in a real Chromium against the real backend with its embedded engines,
// a day of logs of one organisation and one large trace.
//   logs   from the address to a logs screen that can be used (rows and histogram drawn), nothing in the browser's cache, and one question
//   list   a list of --rows records, all of them loaded, scrolled as by a wheel for --seconds at its top, middle and end
//   trace  a trace of --spans, the same
//   tail   the page's memory while a live tail is sent --tail-rate records a second, collected before each reading
// Frames are those of the browser's own trace (console/frames.ts). Chromium draws by the processor here, so a machine without a graphics
// card is the worst case. Reach: 60 frames a second, memory flat.
import { parseArgs } from "node:util";
import type { BrowserContextOptions, Page } from "playwright-core";
import { logInBy, openBrowser, openPage } from "../fixtures/browser.ts";
import { shown } from "../fixtures/measure.ts";
import { adminPassword } from "../fixtures/backend-process.ts";
import { eventually, temporaryFolder } from "../fixtures/processes.ts";
import { type Filled, NEEDLE, startFilled, TRACE_ID } from "./console/filled-backend.ts";
import { scrolled } from "./console/frames.ts";
import { tailed } from "./console/tail.ts";

const VIEW = { viewport: { width: 1280, height: 800 } };
const PARTS = ["logs", "list", "trace", "tail"] as const;

const { values: options } = parseArgs({
  options: {
    only: { type: "string", default: PARTS.join(",") },
    stored: { type: "string", default: "10000000" },
    rows: { type: "string", default: "100000" },
    spans: { type: "string", default: "5000" },
    "tail-seconds": { type: "string", default: "120" },
    "tail-rate": { type: "string", default: "1000" },
    repetitions: { type: "string", default: "5" },
    seconds: { type: "string", default: "10" },
  },
});

type Table = Record<string, Record<string, string>>;
type State = NonNullable<BrowserContextOptions["storageState"]>;

async function main(): Promise<void> {
  using folder = temporaryFolder();
  await using backend = await startFilled(folder.path, { logs: Number(options.stored), spans: Number(options.spans) });
  await using browser = await openBrowser();
  const open = async (storageState?: State) =>
    await openPage(browser, backend.place.apiUrl, { ...VIEW, ...(storageState && { storageState }) }, /401/);
  await using first = await open();
  await logInBy(first.page, "admin@localhost", adminPassword(backend.place));
  const state = await first.page.context().storageState();
  const all: Table = {};
  const measures: Record<(typeof PARTS)[number], (page: Page) => Promise<Table>> = {
    logs: async () => await usable(async () => await open(state)),
    list: async (page) => await listScrolled(page),
    trace: async (page) => await traceScrolled(page),
    tail: async (page) => await tailRow(page, backend),
  };
  for (const part of PARTS.filter((name) => options.only.split(",").includes(name))) {
    const startedAt = performance.now();
    process.stderr.write(`${part} …\n`);
    await using opened = await open(state);
    const table = await measures[part](opened.page);
    process.stderr.write(`${part}: ${Math.round((performance.now() - startedAt) / 1000)} s\n`);
    console.table(table);
    Object.assign(all, table);
    if (opened.complaints.length > 0) throw new Error(`the page complained: ${opened.complaints.join("; ")}`);
  }
  console.log(JSON.stringify({ bench: "console", options, node: process.version, table: all }));
}

/** Each time with an empty cache, as for somebody who opens it for the first time. */
async function usable(open: () => ReturnType<typeof openPage>): Promise<Table> {
  const [rowsMs, allMs, askedMs]: number[][] = [[], [], []];
  for (let repetition = 0; repetition < Number(options.repetitions); repetition++) {
    await using opened = await open();
    const { page } = opened;
    const startedAt = performance.now();
    const since = (): number => performance.now() - startedAt;
    await page.goto("/#/logs?from=24h");
    await Promise.all([
      firstRow(page).then(() => rowsMs?.push(since())),
      page.locator(".histogram svg").waitFor(),
      page.getByRole("combobox", { name: "Query" }).waitFor(),
    ]);
    allMs?.push(since());
    const beganAt = performance.now();
    await page.keyboard.press("/");
    await page.keyboard.type(NEEDLE);
    await page.keyboard.press("Enter");
    await page.getByRole("row").filter({ hasText: NEEDLE }).first().waitFor();
    askedMs?.push(performance.now() - beganAt);
  }
  const row = { "first rows, ms": shown(rowsMs ?? []), "usable, ms": shown(allMs ?? []), "a rare word of a day, ms": shown(askedMs ?? []) };
  return { [`logs screen, ${options.stored} records stored`]: row };
}

async function firstRow(page: Page): Promise<void> {
  await page.getByRole("row").first().waitFor({ timeout: 120_000 });
}

async function listScrolled(page: Page): Promise<Table> {
  await page.goto("/#/logs?from=24h");
  await firstRow(page);
  const list = page.getByRole("grid", { name: "Log records" });
  const loaded = async (): Promise<number> => Number(await list.getAttribute("aria-rowcount"));
  const startedAt = performance.now();
  await eventually(
    `${options.rows} rows are loaded`,
    async () => {
      await list.evaluate((element) => void (element.scrollTop = element.scrollHeight));
      return (await loaded()) >= Number(options.rows);
    },
    1_800_000,
  );
  const name = `list of ${await loaded()} records, loaded in ${Math.round((performance.now() - startedAt) / 1000)} s`;
  return await scrolledAtEachPart(page, name, ".log-table");
}

async function traceScrolled(page: Page): Promise<Table> {
  await page.goto(`/#/traces/${TRACE_ID}`);
  await firstRow(page);
  return await scrolledAtEachPart(page, `trace of ${await page.getByRole("grid").getAttribute("aria-rowcount")} spans`, ".waterfall .list");
}

async function scrolledAtEachPart(page: Page, name: string, selector: string): Promise<Table> {
  const table: Table = {};
  for (const [at, part] of [0, 0.5, 1].entries())
    table[`${name}, ${["top", "middle", "end"][at]}`] = await scrolled(page, selector, part, Number(options.seconds));
  return table;
}

async function tailRow(page: Page, backend: Filled): Promise<Table> {
  const [seconds, rate] = [Number(options["tail-seconds"]), Number(options["tail-rate"])];
  return { [`live tail, ${rate} records a second for ${seconds} s`]: await tailed(page, backend, { seconds, rate }) };
}

await main();
