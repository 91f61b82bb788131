// Attacks with log lines that a program writes to its standard output, which the agent sends as they are: the backend parses them.
import { randomBytes } from "node:crypto";
import { encodeProtobuf } from "../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import type { Attack, Attacker } from "./attack.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/** Lines of the same container, each with the prefix of the container runtime. */
function body(attacker: Attacker, lines: readonly Buffer[]): Buffer {
  const time = new Date().toISOString();
  const observedTimeUnixNano = `${Date.now()}000000`;
  const attributes = [{ key: "log.file.path", value: { stringValue: `/var/log/pods/${attacker.serial()}/0.log` } }];
  const logRecords = lines.map((line) => {
    const text = line.subarray(0, 4).toString("latin1") === "2026" ? line : Buffer.concat([Buffer.from(`${time} stdout F `), line]);
    return { observedTimeUnixNano, body: { stringValue: text } };
  });
  const scope = { name: "atherops/cri-lines" };
  return encodeProtobuf("logs", { resourceLogs: [{ resource: { attributes }, scopeLogs: [{ scope, logRecords }] }] });
}

const filled = (start: string, unit: string | Buffer, bytes = MIB): Buffer =>
  Buffer.concat([Buffer.from(start), Buffer.alloc(bytes, Buffer.from(unit))]);
const repeated = (line: Buffer, count: number): Buffer[] => Array.from({ length: count }, () => line);

const LINES: readonly (() => Buffer[])[] = [
  () => [filled("", "{"), filled("", '{"a":'), filled('{"a":', "[")],
  () => [filled("{", '"level":"error",'), filled("{", '"ts":"2026-11-29T10:00:00.123456789Z",')],
  () => [filled('{"time":', "7"), filled('{"time":1e', "9"), filled('{"a":"', "\\"), filled('{"a":"', String.raw`\n`)],
  () => [filled("", "\u001b[31m"), filled("", "\u001b["), filled("{", '\u001b[1m"a":1,')],
  () => [filled("", Buffer.from([0xff, 0x61])), filled("", Buffer.from([0xf0, 0x9f, 0x98])), filled("", Buffer.from([0]))],
  () => [filled("", "a=b "), filled("", 'level="'), filled("", " "), filled("", "a")],
  () => [filled("", "2026-11-29T10:00:00Z stdout P x\n", 10_000 * 32)],
  () => repeated(filled("{", '"a":1,', 16 * KIB), 200),
  () => repeated(filled("", Buffer.from([0xff, 0x61]), 200), 10_000),
  () => repeated(randomBytes(64 * KIB), 40),
];

/** Lines that cost a parser much, in bodies as an agent sends them. */
export const fileLines: Attack = {
  group: "first",
  what: "raw lines of a container: megabytes of braces, members, digits, escapes, colour codes and bytes that are not UTF-8; 10,000 parts",
  everyMs: 3000,
  async wave(attacker, turn) {
    const lines = LINES[turn % LINES.length]?.() ?? [];
    await attacker.many(3, 3, async () => {
      const headers = { "content-type": "application/x-protobuf" };
      await attacker.call({
        method: "POST",
        path: "/ingest/logs/otlp",
        key: attacker.target.clusterKey,
        body: body(attacker, lines),
        headers,
      });
    });
  },
};
