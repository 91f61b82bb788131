// Bench: OTLP/JSON metrics → exposition text, with the kernel and without, against JSON.parse alone over the same bodies. Reach: the kernel
// ≤ 1.0 × its time. `forgotten`: the kernel as at the first sight of each body, without what it remembers of resources, keys and names.
// Usage: node test/bench/exposition.ts [--rounds 41] [--json]. CPU time, interleaved in one process, medians with quartiles.
import { parseArgs } from "node:util";
import { MetricsConverter } from "../../common/otlp-metrics/converter.ts";
import { fastConverter } from "../../agent/proxy/fast-exposition.ts";

const { values } = parseArgs({ options: { rounds: { type: "string", default: "41" }, json: { type: "boolean", default: false } } });
const rounds = Number(values.rounds);
const TIME = "1763714400123456789";
const START = "1763700000000000000";

type Attributes = Record<string, string>;

function attributes(of: Attributes): object[] {
  return Object.entries(of).map(([key, stringValue]) => ({ key, value: { stringValue } }));
}

function resource(of: Attributes, metrics: object[]): object {
  return { resource: { attributes: attributes(of) }, scopeMetrics: [{ scope: { name: "receiver", version: "0.149.0" }, metrics }] };
}

function sum(name: string, unit: string, points: object[]): object {
  return { name, description: `What ${name} says.`, unit, sum: { dataPoints: points, aggregationTemporality: 2, isMonotonic: true } };
}

function point(of: Attributes, index: number): object {
  const number = index % 3 === 0 ? { asInt: String(index * 1_234_567) } : { asDouble: index * 1.2345 };
  return { attributes: attributes(of), startTimeUnixNano: START, timeUnixNano: TIME, ...number };
}

/** What the host metrics receiver sends of a machine with many cores, disks and interfaces. */
function hostMetrics(): string {
  const states = ["user", "system", "idle", "interrupt", "nice", "softirq", "steal", "wait"];
  const cpus = Array.from({ length: 64 }, (_, cpu) => states.map((state, index) => point({ cpu: `cpu${cpu}`, state }, index))).flat();
  const disks = Array.from({ length: 40 }, (_, disk) =>
    ["read", "write"].map((direction) => point({ device: `nvme${disk}n1`, direction }, disk)),
  ).flat();
  const mounts = Array.from({ length: 40 }, (_, index) =>
    ["used", "free", "reserved"].map((state) =>
      point({ device: `/dev/nvme${index}n1p1`, mode: "rw", mountpoint: `/var/lib/volume/${index}`, state, type: "ext4" }, index),
    ),
  ).flat();
  const names = [
    "system.disk.io",
    "system.disk.operations",
    "system.disk.merged",
    "system.network.io",
    "system.network.packets",
    "system.network.errors",
  ];
  const metrics = [
    sum("system.cpu.time", "s", cpus),
    sum("system.filesystem.usage", "By", mounts),
    ...names.map((name) => sum(name, "By", disks)),
  ];
  return JSON.stringify({ resourceMetrics: [resource({ "host.name": "node-1", "k8s.node.name": "node-1", "os.type": "linux" }, metrics)] });
}

/** What the kubelet receiver sends: many resources of few points. */
function kubelet(): string {
  const names = [
    "container.cpu.time",
    "container.memory.usage",
    "container.memory.rss",
    "container.memory.working_set",
    "container.filesystem.usage",
    "container.memory.page_faults",
  ];
  const containers = Array.from({ length: 250 }, (_, index) => {
    const of = {
      "k8s.pod.uid": `8f14e45f-ceea-467f-9a0b-${String(index).padStart(12, "0")}`,
      "k8s.pod.name": `checkout-7d9c5b6f4d-${index}`,
      "k8s.namespace.name": "shop",
      "k8s.container.name": "server",
      "k8s.node.name": "node-1",
      "k8s.deployment.name": "checkout",
    };
    return resource(
      of,
      names.map((name) => sum(name, "By", [point({}, index)])),
    );
  });
  return JSON.stringify({ resourceMetrics: containers });
}

/** What applications send: histograms with attributes. */
function application(): string {
  const explicitBounds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
  const dataPoints = Array.from({ length: 400 }, (_, index) => ({
    attributes: attributes({
      "http.request.method": "GET",
      "http.route": `/api/items/${index}`,
      "http.response.status_code": "200",
      "url.scheme": "https",
    }),
    startTimeUnixNano: START,
    timeUnixNano: TIME,
    count: String(index * 15),
    sum: index * 1.5,
    bucketCounts: Array.from({ length: 15 }, (_, bucket) => String(index * bucket)),
    explicitBounds,
  }));
  const metric = {
    name: "http.server.request.duration",
    description: "Duration.",
    unit: "s",
    histogram: { dataPoints, aggregationTemporality: 2 },
  };
  const of = {
    "service.name": "checkout",
    "service.namespace": "shop",
    "service.instance.id": "checkout-1",
    "service.version": "1.2.3",
    "telemetry.sdk.language": "nodejs",
  };
  return JSON.stringify({ resourceMetrics: [resource(of, [metric])] });
}

/** What a scrape of cAdvisor sends: many points of many labels. */
function cadvisor(): string {
  const names = [
    "container_cpu_usage_seconds_total",
    "container_memory_working_set_bytes",
    "container_network_receive_bytes_total",
    "container_fs_reads_bytes_total",
  ];
  const metrics = names.map((name) =>
    sum(
      name,
      "",
      Array.from({ length: 300 }, (_, index) =>
        point(
          {
            container: "server",
            id: `/kubepods/burstable/pod8f14e45f/${index}`,
            image: "registry.example/shop/checkout:1.2.3",
            name: `c${index}`,
            namespace: "shop",
            pod: `checkout-${index}`,
          },
          index,
        ),
      ),
    ),
  );
  return JSON.stringify({
    resourceMetrics: [
      resource({ "service.name": "cadvisor", "service.instance.id": "10.0.0.1:10250", "k8s.node.name": "node-1" }, metrics),
    ],
  });
}

/** CPU time of the process, its garbage collection included: steadier than the clock on a machine that others use too. */
function cpuMs(work: () => unknown): number {
  const start = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

function rounded(number: number): number {
  return Math.round(number * 100) / 100;
}

function quantile(sorted: readonly number[], at: number): number {
  return sorted[Math.floor((sorted.length - 1) * at)] ?? Number.NaN;
}

const bodies = Object.entries({ hostMetrics: hostMetrics(), kubelet: kubelet(), application: application(), cadvisor: cadvisor() });
bodies.push(["all four", ""]);
const fast = fastConverter();
if (!fast) throw new Error("there is no kernel: node hack/kernel.mjs");
const kernel = new MetricsConverter(() => {}, fast);
const inWords = new MetricsConverter(() => {});

type Way = "JSON.parse" | "kernel" | "forgotten" | "TypeScript";

const table = bodies.map(([name, body]) => {
  const inputs = (name === "all four" ? bodies.slice(0, 4).map(([, each]) => each) : [body]).map((input) => Buffer.from(input));
  const converted = (converter: MetricsConverter): Buffer =>
    Buffer.concat(inputs.flatMap((input) => [...converter.convert(input, 32 << 20)]));
  if (!converted(kernel).equals(converted(inWords))) throw new Error(`${name}: the kernel does not make the same text`);
  const ways: Record<Way, () => unknown> = {
    "JSON.parse": () => inputs.map((input) => JSON.parse(input.toString()) as unknown),
    kernel: () => inputs.map((input) => [...kernel.convert(input, 32 << 20)]),
    forgotten: () => {
      fast.forget();
      return inputs.map((input) => [...kernel.convert(input, 32 << 20)]);
    },
    TypeScript: () => inputs.map((input) => [...inWords.convert(input, 32 << 20)]),
  };
  const costs: Record<Way, number[]> = { "JSON.parse": [], kernel: [], forgotten: [], TypeScript: [] };
  for (let round = -10; round < rounds; round++) {
    for (const way of Object.keys(ways) as Way[]) {
      const cost = cpuMs(ways[way]);
      if (round >= 0) costs[way].push(cost);
    }
  }
  const ratio = (way: Way): string => {
    const ratios = costs[way].map((cost, round) => cost / (costs["JSON.parse"][round] ?? Number.NaN)).sort((a, b) => a - b);
    return `${rounded(quantile(ratios, 0.5))} (${rounded(quantile(ratios, 0.25))}–${rounded(quantile(ratios, 0.75))})`;
  };
  const median = (way: Way): number =>
    rounded(
      quantile(
        costs[way].toSorted((a, b) => a - b),
        0.5,
      ),
    );
  return {
    body: name,
    kB: Math.round(inputs.reduce((bytes, input) => bytes + input.length, 0) / 1000),
    "JSON.parse ms": median("JSON.parse"),
    "kernel ms": median("kernel"),
    kernel: ratio("kernel"),
    forgotten: ratio("forgotten"),
    TypeScript: ratio("TypeScript"),
  };
});
if (values.json) console.log(JSON.stringify({ bench: "exposition", rounds, node: process.version, table }));
else console.table(table);
