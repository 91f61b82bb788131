// Compares the kernel with check-write.ts: a request that the kernel accepts is also passed on unchanged by check-write.ts, with the same
// hashes; otherwise check-write.ts decides. KERNEL_DOCUMENTS=300000 runs as many requests; KERNEL_SEED=n sets the first seed.
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { beforeAll, expect, it } from "vitest";
import { ApiError } from "../../errors.ts";
import { newHashKey } from "../../storage/metrics/series-hash.ts";
import { Random } from "../otlp/random-documents.fixture.ts";
import { bytesField, varint } from "../otlp/protobuf/encode.fixture.ts";
import { compressSnappy } from "../snappy.fixture.ts";
import { checkSlowPath } from "./check-write.ts";
import { type FastCheck, WRITE_KERNEL_FILE, WriteKernel } from "./fast-check.ts";
import { encodeWrite, type TestSeries } from "./write-request.fixture.ts";

const REQUESTS = Number(process.env["KERNEL_DOCUMENTS"] ?? 1000);
const SEED = Number(process.env["KERNEL_SEED"] ?? 1);
const NOW = 1_795_262_400_000;
const HOUR = 3_600_000;
const LIMITS = { maxLabels: 4, maxNameBytes: 20, maxValueBytes: 30, maxLabelBytes: 90, oldestMs: NOW - HOUR, newestMs: NOW + HOUR };
const MIB = 1024 * 1024;
const STALE = 0x7ff0_0000_0000_0002n;
const hashKey = newHashKey();

let kernel: WriteKernel;
beforeAll(() => void (kernel = new WriteKernel(readFileSync(WRITE_KERNEL_FILE))));

/** Whether the kernel accepted the request. Fails if check-write.ts does not pass it on as it came. */
function compare(body: Buffer, what: string): boolean {
  const accepted = acceptedOf(body);
  if (!accepted) return false;
  const named = `${what}: ${body.toString("hex").slice(0, 2000)}`;
  const checked = checkSlowPath({ body, version: 1, limits: LIMITS, hashKey });
  expect(checked, named).toMatchObject({ accepted: accepted.accepted, dropped: {}, seriesHashes: accepted.seriesHashes });
  expect(Buffer.concat(checked.bodies), named).toEqual(body);
  return true;
}

/** Undefined also if the declared length is one that both refuse. */
function acceptedOf(body: Buffer): FastCheck | undefined {
  try {
    return kernel.check(body, LIMITS, hashKey);
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

function series(random: Random): TestSeries {
  const rare = <T>(usual: T, other: T): T => (random.chance(0.01) ? other : usual);
  // Sorted, unless one is rare.
  const names = [
    rare("host", "node"),
    rare("job", "org_id"),
    rare("jobs", "host_id"),
    rare("n", "job").repeat(1 + random.below(rare(20, 25))),
  ];
  const values = ["a", "ü", "日本語", "😀", "x".repeat(1 + random.below(rare(30, 40))), rare("b", "")];
  const labels = names.slice(0, random.below(rare(4, 5))).map((name) => [name, random.pick(values)] as const);
  const time = () => NOW + random.below(1000) - rare(0, 2 * HOUR);
  const value = () => random.pick([1.5, -0, 1e300, STALE, Number.POSITIVE_INFINITY, rare(0, Number.NaN)]);
  const samples = Array.from({ length: rare(1, random.below(5)) }, () => [value(), time()] as const);
  return { labels: [[rare("__name__", "name"), "up"], ...labels], samples, exemplars: rare(0, 1), histograms: rare(0, 1) };
}

it("random requests, whole and damaged, have the same result, or use the other check", { timeout: 3_600_000 }, () => {
  const taken = { whole: 0, damaged: 0 };
  for (let index = 0; index < REQUESTS; index += 1) {
    const random = new Random(SEED * 1_000_003 + index);
    const request = encodeWrite(Array.from({ length: 1 + random.below(10) }, () => series(random)));
    const what = `KERNEL_SEED=${SEED}, request ${index}`;
    if (compare(compressSnappy(request), what)) taken.whole += 1;
    for (let count = 1 + random.below(2); count > 0; count -= 1) request[random.below(request.length)] = random.below(256);
    if (compare(compressSnappy(request), `${what}, damaged`)) taken.damaged += 1;
    const body = compressSnappy(request);
    body[random.below(body.length)] = random.below(256);
    compare(body, `${what}, compression damaged`);
    compare(body.subarray(0, random.below(body.length)), `${what}, cut off`);
  }
  console.log(`${taken.whole} and ${taken.damaged} damaged of ${REQUESTS} accepted`);
  // Otherwise the comparison would prove nothing.
  expect(taken.whole / REQUESTS).toBeGreaterThan(0.3);
  expect(taken.damaged / REQUESTS).toBeGreaterThan(0.05);
  expect(kernel.traps).toBe(0);
});

it("accepts text exactly if it is UTF-8", () => {
  const edges = [0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff];
  const wrong: string[] = [];
  for (const before of ["", "x".repeat(18)]) {
    const request = encodeWrite([
      {
        labels: [
          ["__name__", "up"],
          ["job", `${before}ABCDz`],
        ],
        samples: [[1, NOW]],
      },
    ]);
    const at = request.indexOf("ABCD");
    for (let lead = 0x7f; lead <= 0xff; lead += 1) {
      for (const second of edges) {
        for (const third of edges) {
          request.set([lead, second, third, 0x80], at);
          const text = request.subarray(at, at + 5);
          if ((acceptedOf(compressSnappy(request)) !== undefined) !== isUtf8(text)) wrong.push(text.toString("hex"));
        }
      }
    }
  }
  expect(wrong).toEqual([]);
});

it("counts the labels of a long series as the other check does", () => {
  const accepted = Array.from({ length: 20 }, (_, length) => {
    const labels = ["a", "b", "c"].map((name) => [name, "x".repeat(10 + length)] as const);
    return compare(compressSnappy(encodeWrite([{ labels: [["__name__", "up"], ...labels], samples: [[1, NOW]] }])), `${length}`);
  });
  expect([accepted[0], accepted.at(-1)]).toEqual([true, false]);
});

it("hashes a long series as often as the other check does: once for each KiB that its labels begin", () => {
  const limits = { ...LIMITS, maxValueBytes: 8000, maxLabelBytes: 8192 };
  const counts = [500, 994, 995, 996, 997, 2018, 2019, 2020, 2021, 7000].map((length) => {
    const labels = [["__name__", "up"] as const, ["job", "x".repeat(length)] as const];
    const write = [{ labels, samples: [[1, NOW]] as const }];
    const fast = kernel.check(compressSnappy(encodeWrite(write)), limits, hashKey)?.seriesHashes;
    for (const version of [1, 2] as const) {
      const body = compressSnappy(encodeWrite(write, version));
      expect(checkSlowPath({ body, version, limits, hashKey }).seriesHashes, `${length}`).toEqual(fast);
    }
    return new Set(fast).size;
  });
  expect(counts).toEqual(counts.toSorted((a, b) => a - b));
  expect([counts[0], counts.at(-1), kernel.traps]).toEqual([1, 7, 0]);
});

it.each([
  ["a literal of 2^32 bytes", Buffer.from([1, 63 << 2, 0xff, 0xff, 0xff, 0xff, 0x0a])],
  ["a copy from before the beginning", Buffer.from([8, 0, 0x0a, (3 << 2) | 2, 2, 0])],
  ["a copy beyond the end", Buffer.from([4, 0, 0x0a, (63 << 2) | 2, 1, 0])],
  ["a declared length that is not reached", Buffer.from([100, 0, 0x0a])],
  ["4.5 MiB", compressSnappy(bytesField(1, Buffer.alloc(4.5 * MIB)))],
  ["a million empty series", compressSnappy(Buffer.alloc(2 * MIB, Buffer.from([0x0a, 0])))],
  ["a length of 2^31", compressSnappy(Buffer.concat([Buffer.from([0x0a]), varint(2n ** 31n)]))],
])("leaves %s to the other check", (_what, body) => {
  expect(kernel.check(body, LIMITS, hashKey)).toBeUndefined();
  expect(kernel.traps).toBe(0);
  expect(kernel.memoryBytes).toBeLessThanOrEqual(10 * MIB);
});
