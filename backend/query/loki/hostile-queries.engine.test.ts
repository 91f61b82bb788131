// Queries that compute without end or use unlimited memory, as a reader of one organisation could send them. Each costs its own
// organisation one query: meanwhile, /healthz and other organisations are answered, and so is the organisation's next query.
import { once } from "node:events";
import { pino } from "pino";
import { Registry } from "prom-client";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { LOKI, type LokiApp, type LokiOrg, openLokiApp } from "../../../test/fixtures/loki-app.ts";
import { logRecord, nanosecondsOf, stringAttribute } from "../../ingest/otlp/otlp-body.fixture.ts";
import { startHealth } from "../../http/health.ts";
import type { InternalListener } from "../../http/internal-listener.ts";

/** Less than in production, so that the test is quick. */
const CPU_MS = 1500;
/** A machine with other tests is slow; a blocked event loop is blocked for minutes. */
const ANSWERED_MS = 5000;
const startNs = nanosecondsOf(new Date()) - 60_000_000_000n;
// Each 5 s a metric query looks back from: the first moment is before the records, the others are after them.
const RANGE = { start: String(startNs - 1n), end: String(startNs + 10_000_000_000n) };

let app: LokiApp;
let url: string;
let health: InternalListener;
let red: LokiOrg;
let blue: LokiOrg;
beforeAll(async () => {
  app = await openLokiApp({ pollMs: 20 }, undefined, { limits: { cpuMs: CPU_MS } });
  url = await app.backend.app.listen({ host: "127.0.0.1", port: 0 });
  const log = pino({ level: "silent" });
  health = await startHealth({
    listen: { host: "127.0.0.1", port: 0 },
    checks: () => ({}),
    registry: new Registry(),
    draining: () => false,
    log,
  });
  [red, blue] = [await app.org(), await app.org()];
  const long = Array.from({ length: 8 }, (_, index) => stringAttribute("a", `${index}${"x".repeat(180_000)}`));
  await red.send([logRecord(startNs, `\u001b${";".repeat(240_000)}`)], "colours");
  await red.send([logRecord(startNs, "x", { attributes: [stringAttribute("a", `${"1".repeat(240_000)}x`)] })], "number");
  await red.send([logRecord(startNs, "x", { attributes: [stringAttribute("a", "a".repeat(60_000))] })], "text");
  await red.send([logRecord(startNs, `{"b":[${"1,".repeat(125_000)}1]}`)], "json");
  await red.send(
    long.map((attribute, index) => logRecord(startNs + BigInt(index), "x", { attributes: [attribute] })),
    "long",
  );
  const pairs = `${"k=v ".repeat(1000)}a=1`;
  await red.send(
    Array.from({ length: 512 }, (_, index) => logRecord(startNs + BigInt(index), `${pairs.slice(index % 7)} n=${index}`)),
    "pairs",
  );
  await blue.send([logRecord(startNs, "of blue")]);
});
afterAll(async () => {
  await health?.[Symbol.asyncDispose]();
  await app?.[Symbol.asyncDispose]();
});

const of = (service: string, stages: string): string => `{service_name="${service}"} ${stages}`;
const printed =
  '{{$a := printf "%1048000s" "x"}}{{$b := print $a $a $a $a $a $a $a $a}}{{$c := print $b $b $b $b $b $b $b $b}}{{trimAll "y" $c}}';
const paths = Array.from({ length: 200 }, (_, index) => `a${index}="b[${124_999 - index}]"`).join(", ");
const labels = Array.from({ length: 40 }, (_, index) => `x${index}`).join(", ");
const copies = (count: number, text: string): string => Array.from({ length: count }, () => text).join(" ");

const LOGS: readonly (readonly [name: string, query: string])[] = [
  ["a template that is read by an expression of JavaScript's own engine", of("text", `| line_format \`{{${'""'.repeat(40)}\``)],
  ["the same of label_format", of("text", `| label_format b=\`{{${'""'.repeat(40)}\``)],
  ["colours that never end", of("colours", "| decolorize")],
  ["a label that is almost a number", of("number", "| a > 5")],
  ["many functions over a long text", of("text", `| line_format \`{{ repeat 1048576 "a" ${copies(100, '| replace "a" "b"')} }}\``)],
  ["many paths of a long line", of("json", `| json ${paths}`)],
  ["a text that grows with each step", of("text", `| line_format \`${printed}\``)],
  ["many large variables", of("text", `| line_format \`${'{{$x := repeat 1048576 "a" | lower}}'.repeat(300)}\``)],
  [
    "one replacement that makes hundreds of megabytes",
    of("text", `| line_format \`{{ repeat 1048576 "a" | replace "" "${"b".repeat(500)}" }}\``),
  ],
];
const METRICS: readonly (readonly [name: string, query: string])[] = [
  ["many labels that logfmt finds at the end of long lines", `sum by (${labels}) (count_over_time(${of("pairs", "| logfmt [1h]")}))`],
  ["an unwrapped label that is almost a number", `sum(sum_over_time(${of("number", "| unwrap a [1h]")}))`],
  [
    "a label that is made of many copies of a long one",
    `label_replace(count_over_time(${of("long", "[1h]")}), "b", "${"$1".repeat(2800)}", "a", "(.*)")`,
  ],
];

it.each([...LOGS, ...METRICS])("%s: the process answers all other requests", async (_, query) => {
  const isDone = { yet: false };
  const hostile = red.get("query_range", { query, ...RANGE, step: "5" }).finally(() => (isDone.yet = true));
  await expectAnswers(isDone);
  const answer = await hostile;
  // Answered if the work for one record is limited; otherwise refused or stopped.
  const outcome = answer.statusCode === 200 ? "answered" : (answer.json().error as string);
  expect(["answered", "query_too_expensive", "invalid_parameter"], answer.body.slice(0, 500)).toContain(outcome);
  const next = await red.get("query_range", { query: of("text", ""), ...RANGE });
  expect(next.statusCode).toBe(200);
});

it.each([
  [2800, "walks or makes more than 32 Mi characters"],
  [40, "makes labels of more than"],
])("rejects a label of %i copies before its process runs out of memory: it %s", async (count, reason) => {
  const query = `label_replace(count_over_time(${of("long", "[1h]")}), "b", "${"$1".repeat(count)}", "a", "(.*)")`;
  const answer = await red.get("query_range", { query, ...RANGE, step: "5" });
  expect(answer.json()).toMatchObject({ error: "query_too_expensive", message: expect.stringContaining(reason) as string });
});

it("a tail that computes for each record ends with the reason, and the process answers all other requests", async () => {
  const stages = '| line_format `{{ repeat 1048576 "a" | replace "a" "b" | replace "b" "a" | replace "a" "b" | replace "b" "a" }}`';
  const query = `{service_name="tailed"} ${copies(20, stages)}`;
  const socket = new WebSocket(`${url.replace("http", "ws")}${LOKI}/tail?${new URLSearchParams({ query }).toString()}`, {
    headers: { authorization: red.authorization },
  });
  onTestFinished(() => socket.terminate());
  const messages: { error?: string; message?: string }[] = [];
  const isDone = { yet: false };
  socket.on("message", (data: Buffer) => messages.push(JSON.parse(data.toString("utf8")) as (typeof messages)[number]));
  await once(socket, "open");
  const closed = once(socket, "close").then(() => (isDone.yet = true));
  const now = nanosecondsOf(new Date());
  await red.send(
    Array.from({ length: 100 }, (_, index) => logRecord(now + BigInt(index), "x")),
    "tailed",
  );
  await expectAnswers(isDone);
  await closed;
  expect(messages.at(-1)).toMatchObject({ error: "query_too_expensive", message: expect.stringContaining("this query") as string });
});

/** While the hostile query runs: again and again, at least once. */
async function expectAnswers(isDone: { readonly yet: boolean }): Promise<void> {
  do {
    const startMs = performance.now();
    const healthy = await fetch(`http://127.0.0.1:${health.port}/healthz`, { signal: AbortSignal.timeout(ANSWERED_MS) });
    expect(healthy.status).toBe(200);
    const answer = await blue.get("query_range", { query: '{service_name="shop"} | line_format "{{__line__}}!"', ...RANGE });
    expect(answer.json().data.result[0].values[0][1]).toBe("of blue!");
    expect(performance.now() - startMs).toBeLessThan(2 * ANSWERED_MS);
  } while (!isDone.yet);
}
