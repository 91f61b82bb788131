// Compares this machine's metrics (CPU, memory, disks, file systems and network), as a real host agent sent them and a real backend stored
// them, with /proc. Prints both.
import { afterAll, beforeAll, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { hostAgentPlace, startHostAgent } from "../fixtures/host-agent-process.ts";
import { areAll, compare, HOST_METRICS, readHost, type Reading, type Sample } from "../fixtures/host-truth.ts";
import { call, type TestProcess } from "../fixtures/processes.ts";

const backend = backendOfFile();
let agent: TestProcess;
let token: string;

beforeAll(async () => {
  token = await backend.operator();
  const installToken = await backend.installToken(token, { ttl: "1h" });
  const place = await hostAgentPlace(backend.folder, backend.apiUrl, {
    INSTALL_TOKEN: installToken,
    SIGNALS: "metrics",
    METRICS_INTERVAL: "1s",
  });
  agent = await startHostAgent(place);
});
afterAll(async () => {
  await agent?.end();
});

/** The newest sample of each series, as it was stored. */
async function newest(metric: string): Promise<Sample[]> {
  const query = encodeURIComponent(`${metric}[1m]`);
  const { json } = await call("GET", `${backend.apiUrl}/query/prometheus/api/v1/query?query=${query}`, { bearer: token });
  const result = (json?.data?.result ?? []) as { metric: Record<string, string>; values: [number, string][] }[];
  return result.flatMap(({ metric: labels, values }) => {
    const [seconds, value] = values.at(-1) ?? [0, ""];
    return [{ metric: labels, atMs: seconds * 1000, value: Number(value) }];
  });
}

test("processors, memory, load, disks, file systems and network match /proc", async () => {
  const readings: Reading[] = [readHost()];
  const since = readings[0]?.atMs ?? 0;
  const samples: Sample[] = [];
  for (const metric of HOST_METRICS) {
    const fresh = await backend.shows(`new samples of ${metric}, all of them`, async () => {
      readings.push(readHost());
      const found = (await newest(metric)).filter(({ atMs }) => atMs > since);
      return areAll(metric, readings, found) && found;
    });
    samples.push(...fresh);
  }
  readings.push(readHost());
  const rows = compare(readings, samples);
  const shown = rows.filter(({ highest }) => highest > 0);
  console.log(
    [
      "series, by /proc before, stored, by /proc after",
      ...shown.map(({ series, lowest, stored, highest }) => `${series}  ${lowest}  ${stored}  ${highest}`),
    ].join("\n"),
  );
  expect(rows.filter(({ isRight }) => !isRight)).toEqual([]);
  for (const metric of HOST_METRICS)
    expect(
      rows.some(({ series }) => series.startsWith(`${metric}{`)),
      metric,
    ).toBe(true);
});
