// The real collector accepts every job that passes the agent's validation: a job that it refuses would block the jobs of all other
// monitors.
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startCollector, type TestCollector } from "../../test/fixtures/collector.ts";
import { eventually, freeAddresses } from "../../test/fixtures/processes.ts";
import { ALLOCATOR_VARIABLE } from "../collector/config/collector-config.ts";
import { CLUSTER } from "../collector/config/render.fixture.ts";
import { configFromSettings } from "../collector/config/config-from-settings.ts";
import { readSettings } from "../settings.ts";
import type { Monitor } from "./monitor-objects.ts";
import { podMonitor, serviceMonitor, SHOP } from "./monitors.fixture.ts";
import { expandedCharacters, isAccepted, type Relabeling, type Rule } from "./relabeling.ts";
import { scrapeJobs } from "./scrape-jobs.ts";

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "atherops-monitors-"))));
afterAll(() => rmSync(folder, { recursive: true }));

/** A fixed sequence, so that a failure can be repeated. */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const PIECES = String.raw`a b- ( ) (?: | * + ? {2} {3,} {1,40} [a-z] [^x] [\w.] ^ $ . \. \d \b \x41 \0 \v \/ (?i) é ] } - \S+`.split(" ");

test("the collector accepts every action, every kind of expression, and thousands of random ones", { timeout: 180_000 }, async () => {
  const random = randomNumbers(7);
  const expressions = Array.from({ length: 20_000 }, () =>
    Array.from({ length: 1 + random(8) }, () => PIECES[random(PIECES.length)]).join(""),
  ).filter((regex) => isAccepted(regex) && expandedCharacters(regex) < 500);
  const deep = `${"(ab|ac".repeat(99)}a${")*".repeat(99)}`;
  const large = ["a{1000}", deep, "x".repeat(4096)];
  expect(large.every(isAccepted)).toBe(true);
  const unique = [...new Set(["", ".*", "(?i)get|put", ...expressions])];
  expect(unique.length).toBeGreaterThan(1500);
  const drop = (regex: string): Relabeling => ({ action: "Drop", sourceLabels: ["pod"], regex });
  const drops = unique.map(drop);
  const more: Relabeling[] = [
    {
      sourceLabels: ["__meta_kubernetes_pod_name"],
      targetLabel: "__metrics_path__",
      regex: "(.+)",
      replacement: "/$1/${1}$$",
      separator: "@",
    },
    { action: "keepequal", sourceLabels: ["a"], targetLabel: "b", separator: ",", regex: "x", replacement: "y" },
    { action: "dropequal", sourceLabels: ["a"], targetLabel: "b" },
    { action: "labeldrop", sourceLabels: ["a"], separator: ",", regex: "pod_.*" },
    { action: "labelkeep", regex: "__.*|pod|namespace" },
    { action: "labelmap", regex: "__meta_kubernetes_pod_label_(.+)" },
    { action: "lowercase", sourceLabels: ["a"], targetLabel: "b", replacement: "x" },
    { action: "Uppercase", sourceLabels: ["a"], targetLabel: "__param_x" },
    { action: "hashmod", sourceLabels: ["a"], targetLabel: "__tmp_hash", modulus: 4 },
    { targetLabel: "env", replacement: "" },
  ];
  const endpoint = {
    port: "metrics",
    params: { a: ["b$c"] },
    tlsConfig: { serverName: "x", insecureSkipVerify: false },
    relabelings: more,
  };
  const parts = [
    ...Array.from({ length: Math.ceil(drops.length / 15) }, (_, i) => drops.slice(i * 15, i * 15 + 15)),
    ...large.map((regex) => [drop(regex)]),
  ];
  const monitors = [
    serviceMonitor(endpoint, { sampleLimit: 5, targetLabels: ["team"], podTargetLabels: ["app.kubernetes.io/name"] }),
    ...parts.map((metricRelabelings, i) => ({
      ...podMonitor({ portNumber: 9100, metricRelabelings }),
      metadata: { namespace: "shop", name: `p${i}` },
    })),
  ];
  const jobs = jobsOf(monitors);
  await expect(takenOf(jobs)).resolves.toEqual(namesOf(jobs));
});

test("escapes text that YAML, the collector and Prometheus parse differently", async () => {
  const text = [
    ...String.raw`é 😀 --- yes 1 null !!x *a \ - ?a | > % @ 0x1 1:2 ~ " ' [ { ,`.split(" "),
    "a: b # c",
    " ?",
    "a ? b",
    " a ",
    "$",
    "${x}",
    "\u{e000}",
  ];
  const relabelings = text.map((replacement): Relabeling => ({ targetLabel: "a", replacement, separator: replacement }));
  const params = Object.fromEntries(["match[]", "null", "1", "yes"].map((name) => [name, text]));
  const monitors = [
    serviceMonitor({ port: "metrics", params, relabelings, tlsConfig: { serverName: "a b" } }, { jobLabel: "constructor" }),
    serviceMonitor({ port: "metrics" }, { targetLabels: ["__proto__", "toString"] }),
    ...text.map((port) => podMonitor({ port: `p${port}` }, { jobLabel: port })),
  ].map((monitor, i) => ({ ...monitor, metadata: { namespace: "shop", name: `m${i}` } }));
  const jobs = jobsOf(monitors);
  await expect(takenOf(jobs)).resolves.toEqual(namesOf(jobs));
});

const namesOf = (jobs: readonly Rule[]): string[] => jobs.map((job) => String(job["job_name"])).sort();

function jobsOf(monitors: readonly Monitor[]): Rule[] {
  const { jobs, refused } = scrapeJobs({ monitors, services: [SHOP], defaultIntervalMs: 30_000, acrossNamespaces: [] });
  expect([...refused]).toEqual([]);
  return [...jobs.values()].map(({ config }) => config);
}

/** The agent as a target allocator, and the only target of each job. */
class Allocator implements AsyncDisposable {
  jobs: readonly Rule[] = [];
  /** Jobs whose targets the collector wants, because it has taken them. */
  readonly taken = new Set<string>();
  readonly pages: string[] = [];
  lists = 0;
  readonly #server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "", "http://allocator");
    const [, name] = /^\/jobs\/(.+)\/targets$/.exec(pathname) ?? [];
    if (name !== undefined) this.taken.add(decodeURIComponent(name.replaceAll("+", " ")));
    else if (pathname === "/scrape_configs") this.lists += 1;
    else this.pages.push(request.url ?? "");
    const labels = { __meta_kubernetes_pod_container_port_name: "http-metrics" };
    const answer =
      name === undefined ? Object.fromEntries(this.jobs.map((job) => [job["job_name"], job])) : [{ targets: [this.address], labels }];
    response.writeHead(200, { "content-type": "application/json", connection: "close" }).end(JSON.stringify(answer));
  });

  static async start(): Promise<Allocator> {
    const allocator = new Allocator();
    allocator.#server.listen(0, "127.0.0.1");
    await once(allocator.#server, "listening");
    return allocator;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await Promise.resolve();
  }
}

async function collectorOf({ address }: Allocator): Promise<TestCollector> {
  const stateDir = mkdtempSync(join(folder, "state-"));
  const overlay = join(stateDir, "overlay.yaml");
  writeFileSync(
    overlay,
    "receivers: {hostmetrics: null, kubeletstats: null, prometheus/cadvisor: null, prometheus/monitors: {target_allocator: {interval: 1s}}}\nprocessors: {k8s_attributes: null}\n",
  );
  const [grpc, http] = await freeAddresses(2);
  const { settings } = readSettings("cluster", {
    ...CLUSTER,
    PROMETHEUS_OPERATOR: "true",
    STATE_DIR: stateDir,
    COLLECTOR_CONFIG_FILE: overlay,
    SIGNALS: "metrics",
    OTLP_GRPC_LISTEN: grpc,
    OTLP_HTTP_LISTEN: http,
  });
  const collector = await startCollector(stateDir, configFromSettings(settings), { [ALLOCATOR_VARIABLE]: `http://${address}` });
  expect(await collector.ready(AbortSignal.timeout(60_000))).toBe(true);
  return collector;
}

test("a running collector applies changed jobs, keeps the old ones while one is invalid, and keeps text unchanged", async () => {
  await using allocator = await Allocator.start();
  await using _ = await collectorOf(allocator);
  const [good = {}] = jobsOf([serviceMonitor({ port: "metrics", interval: "1s", params: { x: ["${env:HOME}$$", "? a"] } })]);
  allocator.jobs = [good];
  await eventually("the page is read", () => allocator.pages[0], 60_000);
  expect(allocator.pages[0]).toBe("/metrics?x=%24%7Benv%3AHOME%7D%24%24&x=%3F+a");
  const bad = { ...good, job_name: "bad", metric_relabel_configs: [{ source_labels: ["a"], regex: "a**", action: "drop" }] };
  allocator.jobs = [good, bad];
  const { lists } = allocator;
  await eventually("the jobs are read again", () => allocator.lists > lists + 2, 60_000);
  const pages = allocator.pages.length;
  await eventually("the page is read again", () => allocator.pages.length > pages + 1, 60_000);
  expect(allocator.taken).toEqual(new Set([good["job_name"]]));
  allocator.jobs = [{ ...good, job_name: "other" }];
  await eventually("the other job is taken", () => allocator.taken.has("other"), 60_000);
});

async function takenOf(jobs: readonly Rule[]): Promise<string[]> {
  await using allocator = await Allocator.start();
  await using _ = await collectorOf(allocator);
  allocator.jobs = jobs;
  await eventually("the collector takes all jobs", () => allocator.taken.size >= jobs.length, 90_000);
  return [...allocator.taken].sort();
}
