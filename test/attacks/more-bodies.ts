// Further attacks with an ingest key: bodies that are numerous, wide, deep, or different from what their headers announce.
import { promisify } from "node:util";
import { constants, gzip, zstdCompress } from "node:zlib";
import { sign } from "../../common/protocol/signature.ts";
import type { Attack, Attacker } from "./attack.ts";

const MIB = 1024 * 1024;
const LOGS = "/ingest/logs/otlp";
const TRACES = "/ingest/traces";
const METRICS = "/ingest";
const DAY_MS = 86_400_000;
const zipped = promisify(gzip);

async function post(attacker: Attacker, path: string, body: Buffer, encoding?: string): Promise<void> {
  const headers = encoding === undefined ? undefined : { "content-encoding": encoding };
  await attacker.call({ method: "POST", path, key: attacker.target.apiKey, body, headers });
}

async function postZipped(attacker: Attacker, path: string, text: string): Promise<void> {
  await post(attacker, path, await zipped(Buffer.from(text), { level: 1 }), "gzip");
}

const times = (count: number, make: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => make(index)).join(",");
const spanOf = (rest: string): string =>
  `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"${"1".repeat(32)}","spanId":"${"2".repeat(16)}","name":"x","startTimeUnixNano":"${Date.now()}000000","endTimeUnixNano":"${Date.now()}000000",${rest}}]}]}]}`;
const logsOf = (records: string): string => `{"resourceLogs":[{"scopeLogs":[{"logRecords":[${records}]}]}]}`;

export const largestBodies: Attack = {
  group: "more",
  what: "24 metric bodies of 31 MiB at once, uncompressed, again and again: the memory for bodies",
  everyMs: 2000,
  async wave(attacker) {
    const line = `largest{path="/api/v1/things",pod="thing-0",serial="${attacker.serial()}"} 1 ${Date.now()}\n`;
    const body = Buffer.from(line.repeat(Math.floor((31 * MIB) / line.length)));
    await attacker.many(24, 24, () => post(attacker, METRICS, body));
  },
};

export const logFlood: Attack = {
  group: "more",
  what: "16 senders of ordinary log bodies of 4 MB, each sends the next at once",
  everyMs: 0,
  async wave(attacker) {
    const message = "an ordinary line of a service that has something to say ".repeat(6);
    await attacker.many(32, 16, async () => {
      const records = times(10_000, () => `{"timeUnixNano":"${Date.now()}000000","body":{"stringValue":"${message}"}}`);
      await postZipped(
        attacker,
        LOGS,
        `{"resourceLogs":[{"resource":{"attributes":[{"key":"serial","value":{"stringValue":"${attacker.serial()}"}}]},"scopeLogs":[{"logRecords":[${records}]}]}]}`,
      );
    });
  },
};

export const wideDays: Attack = {
  group: "more",
  what: "forty small bodies at once whose records spread over thirty days: a part of a table for each day and body",
  everyMs: 1000,
  async wave(attacker) {
    await attacker.many(80, 40, async () => {
      const serial = attacker.serial();
      const record = (day: number): string =>
        `{"timeUnixNano":"${Date.now() - day * DAY_MS + 60_000}000000","body":{"stringValue":"${serial}"}}`;
      await post(attacker, LOGS, Buffer.from(logsOf(times(29, record))));
    });
  },
};

export const newSeries: Attack = {
  group: "more",
  what: "metric bodies of 200,000 series that have never been seen, two at once",
  everyMs: 2000,
  async wave(attacker) {
    await attacker.many(2, 2, async () => {
      const serial = attacker.serial();
      const lines = Array.from({ length: 200_000 }, (_, index) => `m{s="${serial}",i="${index}"} 1\n`);
      await post(attacker, METRICS, await zipped(lines.join(""), { level: 1 }), "gzip");
    });
  },
};

export const longSeries: Attack = {
  group: "more",
  what: "2,000 new series with labels of almost 8 KiB: the engine's memory for series grows with their bytes",
  everyMs: 2000,
  async wave(attacker) {
    const serial = attacker.serial();
    const labels = Array.from({ length: 8 }, (_, index) => `l${index}="${serial}${"x".repeat(950)}"`).join(",");
    const lines = Array.from({ length: 2000 }, (_, index) => `m{i="${index}",${labels}} 1\n`);
    await post(attacker, METRICS, await zipped(lines.join(""), { level: 1 }), "gzip");
  },
};

export const deepAndWide: Attack = {
  group: "more",
  what: "one span of 100,000 links, events or attributes; values nested 5,000 deep; 50,000 different keys; a source for each record",
  everyMs: 3000,
  async wave(attacker, turn) {
    const link = `{"traceId":"${"3".repeat(32)}","spanId":"${"4".repeat(16)}"}`;
    const keyed = (index: number): string => `{"key":"k${index}-${attacker.serial()}","value":{"intValue":"${index}"}}`;
    const deep = `${'{"arrayValue":{"values":['.repeat(5000)}${"]}}".repeat(5000)}`;
    const own = (index: number): string =>
      `{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"s${index}-${attacker.serial()}"}}]},"scopeLogs":[{"logRecords":[{"timeUnixNano":"${Date.now()}000000"}]}]}`;
    const kinds = [
      () => postZipped(attacker, TRACES, spanOf(`"links":[${times(100_000, () => link)}]`)),
      () => postZipped(attacker, TRACES, spanOf(`"events":[${times(100_000, (index) => `{"name":"e","timeUnixNano":"${index}"}`)}]`)),
      () => postZipped(attacker, TRACES, spanOf(`"attributes":[${times(100_000, keyed)}]`)),
      () => post(attacker, LOGS, Buffer.from(logsOf(`{"body":${deep}}`))),
      () => postZipped(attacker, LOGS, logsOf(`{"attributes":[${times(50_000, keyed)}]}`)),
      () => postZipped(attacker, LOGS, `{"resourceLogs":[${times(30_000, own)}]}`),
      () => postZipped(attacker, METRICS, `m{${times(20_000, (index) => `l${index}="v"`)}} 1\n`),
      () => postZipped(attacker, METRICS, `m{l="${"x".repeat(20 * MIB)}"} 1\n`),
    ];
    await kinds[turn % kinds.length]?.();
  },
};

export const bombs: Attack = {
  group: "more",
  what: "gzip and zstd that unpack to 512 MiB of spaces, zstd with a window of 128 MiB, a hundred empty members, all at once",
  everyMs: 5000,
  async wave(attacker) {
    const spaces = Buffer.alloc(64 * MIB, 0x20);
    const member = await zipped(spaces, { level: 9 });
    const gzipBomb = Buffer.concat(Array.from({ length: 8 }, () => member));
    const zstd = await promisify(zstdCompress)(spaces, { params: { [constants.ZSTD_c_windowLog]: 27 } });
    const empty = Buffer.concat(Array.from({ length: 100 }, () => EMPTY));
    const kinds: [Buffer, string][] = [
      [gzipBomb, "gzip"],
      [Buffer.concat(Array.from({ length: 8 }, () => zstd)), "zstd"],
      [zstd, "zstd"],
      [empty, "gzip"],
    ];
    await attacker.many(16, 16, async (index) => {
      const [body, encoding] = kinds[index % kinds.length] ?? [empty, "gzip"];
      await post(attacker, [LOGS, TRACES, METRICS][index % 3] ?? LOGS, body, encoding);
    });
  },
};
const EMPTY = Buffer.from("1f8b08000000000000ff03000000000000000000", "hex");

export const drippingBodies: Attack = {
  group: "more",
  what: "800 connections that are signed, announce 32 MiB, send 300 kB and fall silent",
  everyMs: 20_000,
  async wave(attacker) {
    const sent = Buffer.alloc(300_000, 0x20);
    await attacker.many(800, 800, async (index) => {
      await attacker.pause(index * 4);
      const signed = Object.entries(sign(attacker.target.apiKey, "POST", LOGS, Date.now() / 1000)).map(
        ([name, value]) => `${name}: ${value}\r\n`,
      );
      await attacker.hold([`POST ${LOGS} HTTP/1.1\r\nHost: x\r\n${signed.join("")}Content-Length: ${32 * MIB}\r\n\r\n`, sent], 30_000);
    });
  },
};
