// Compares the stored metrics of a node, which is this machine, with its /proc: the agent's metrics, and the kubelet's network metrics (the
// agent itself would see only its own pod's traffic).
import { areAll, compare, type Compared, HOST_METRICS, readHost, type Reading, type Sample } from "../fixtures/host-truth.ts";
import { eventually } from "../fixtures/processes.ts";

/** Kubelets read a node's network at their own intervals: their figures may be this old. */
const KUBELET_LAG_MS = 60_000;
/** Maximum time from the first visible sample of a request to the last one. */
const LAST_PIECE_MS = 15_000;
const KUBELET_NETWORK = "k8s_node_network_io_bytes_total";

export interface RawSeries {
  readonly metric: Readonly<Record<string, string>>;
  readonly values: readonly [number, string][];
}

/** `raw` answers the samples of a metric in the last minutes; `earlier`: from the beginning of the suite. */
export async function compareNode(raw: (metric: string) => Promise<RawSeries[]>, earlier: Reading): Promise<Compared[]> {
  const readings: Reading[] = [readHost()];
  const since = readings[0]?.atMs ?? 0;
  const after = async (atMs: number, metric: string, isWhole: (found: Sample[]) => boolean): Promise<Sample[]> => {
    const found = async (): Promise<Sample[]> => {
      readings.push(readHost());
      return newest(await raw(metric)).filter((sample) => sample.atMs > atMs);
    };
    const some = await eventually(`a sample of ${metric}`, async () => (await found()).length > 0 && found(), 150_000);
    // The engine shows what came together in pieces. The comparison reports what it never shows.
    const whole = eventually(`all of ${metric}`, async () => [await found()].find(isWhole), LAST_PIECE_MS);
    return await whole.catch(() => some);
  };
  const samples: Sample[] = [];
  for (const metric of HOST_METRICS.filter((name) => !name.startsWith("system_network"))) {
    samples.push(...(await after(since, metric, (found) => areAll(metric, readings, found))));
  }
  const directionsOf = (found: Sample[], device?: string) => found.filter(({ metric }) => metric.interface === device).length;
  const areBoth = (found: Sample[]) => found.length > 0 && found.every(({ metric }) => directionsOf(found, metric.interface) === 2);
  const network = (await after(earlier.atMs + KUBELET_LAG_MS, KUBELET_NETWORK, areBoth)).map(
    ({ metric: { interface: device = "", direction = "" }, ...rest }) => ({
      ...rest,
      metric: { __name__: "system_network_io_bytes_total", device, direction },
    }),
  );
  readings.push(readHost());
  const devices = new Set(network.map(({ metric }) => metric.device));
  const ofKubelet = compare([earlier, readHost()], network).filter(({ series }) =>
    [...devices].some((device) => series.startsWith(`system_network_io_bytes_total{device="${device}"`)),
  );
  return [...compare(readings, samples).filter(({ series }) => !series.startsWith("system_network")), ...ofKubelet];
}

interface Usage {
  readonly cpu?: { readonly usageCoreNanoSeconds?: number };
  readonly network?: { readonly interfaces?: readonly { readonly name: string; readonly rxBytes?: number }[] };
}
/** The part of the kubelet's /stats/summary that is read. */
export interface Summary {
  readonly node: Usage;
  readonly pods: readonly (Usage & { readonly podRef: { readonly name: string; readonly namespace: string } })[];
}

/** Counters of the kubelet's summary under the names of their series: CPU and received bytes of the node and, if they are counted, of pods. */
function countersOf({ node, pods }: Summary): Map<string, number> {
  const counters = new Map<string, number>();
  const note = (series: string, value: number | undefined): void => void (value !== undefined && counters.set(series, value));
  note("k8s_node_cpu_time_seconds_total", (node.cpu?.usageCoreNanoSeconds ?? Number.NaN) / 1e9);
  for (const { name, rxBytes } of node.network?.interfaces ?? []) note(`${KUBELET_NETWORK} ${name}`, rxBytes);
  for (const { podRef, cpu, network } of pods) {
    if (cpu?.usageCoreNanoSeconds !== undefined)
      note(`k8s_pod_cpu_time_seconds_total ${podRef.namespace}/${podRef.name}`, cpu.usageCoreNanoSeconds / 1e9);
    for (const { name, rxBytes } of network?.interfaces ?? [])
      note(`k8s_pod_network_io_bytes_total ${podRef.namespace}/${podRef.name} ${name}`, rxBytes);
  }
  return counters;
}

/** VictoriaMetrics stores some 13 digits of a number. */
const STORED_PRECISION = 1e-12;

/** Counters as they are stored, between two readings of the kubelet's summary; those of pods that live through it. */
export async function compareSummary(
  raw: (metric: string) => Promise<RawSeries[]>,
  readSummary: () => Promise<Summary>,
): Promise<Compared[]> {
  const lowest = countersOf(await readSummary());
  const sinceMs = Date.now();
  const stored = new Map<string, number>();
  for (const metric of new Set([...lowest.keys()].map((series) => series.split(" ")[0] ?? ""))) {
    const isNew = ({ atMs, metric: { direction = "receive" } }: Sample) => atMs > sinceMs && direction === "receive";
    const samples = await eventually(
      `${metric} of a later reading`,
      async () => {
        const found = newest(await raw(metric)).filter(isNew);
        return found.length > 0 && found;
      },
      150_000,
    );
    for (const {
      metric: { k8s_namespace_name: namespace, k8s_pod_name: pod, interface: device },
      value,
    } of samples)
      stored.set([metric, pod && `${namespace}/${pod}`, device].filter(Boolean).join(" "), value);
  }
  const highest = countersOf(await readSummary());
  return [...lowest].flatMap(([series, low]) => {
    const [value, high] = [stored.get(series), highest.get(series)];
    if (value === undefined || high === undefined) return [];
    const rounding = high * STORED_PRECISION;
    return [{ series, lowest: low, stored: value, highest: high, isRight: low - rounding <= value && value <= high + rounding }];
  });
}

function newest(series: readonly RawSeries[]): Sample[] {
  return series.flatMap(({ metric, values }) => {
    const [seconds, value] = values.at(-1) ?? [0, ""];
    return [{ metric, atMs: seconds * 1000, value: Number(value) }];
  });
}
