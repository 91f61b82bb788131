// The real collector accepts every job that passes our validation: one that it refuses would hold up the jobs of all other monitors.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { toolPath } from "../../hack/fetch-tools.ts";
import { CLUSTER } from "../collector/config/render.fixture.ts";
import { configFromSettings } from "../collector/config/config-from-settings.ts";
import { validateCollectorConfig } from "../collector/supervision/config-files.ts";
import { readSettings } from "../settings.ts";
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

const PIECES = [
  "a",
  "b-",
  "(",
  ")",
  "(?:",
  "|",
  "*",
  "+",
  "?",
  "{2}",
  "{3,}",
  "{1,40}",
  "[a-z]",
  "[^x]",
  "[\\w.]",
  "^",
  "$",
  ".",
  "\\.",
  "\\d",
  "\\b",
  "\\x41",
  "\\0",
  "\\v",
  "\\/",
  "(?i)",
  "é",
  "]",
  "}",
  "-",
  "\\S+",
];

test("every action, every kind of expression, and thousands of random ones", { timeout: 120_000 }, async () => {
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
  const { jobs, refused } = scrapeJobs(monitors, [SHOP], 30_000);
  expect([...refused]).toEqual([]);
  await validate(jobs);
  const bad = { ...jobs[0], metric_relabel_configs: [{ source_labels: ["a"], regex: "a**", action: "drop" }] };
  await expect(validate([bad]), "validation notices").rejects.toThrow(/nested repetition/);
});

test("text that YAML, the collector and Prometheus read in another way than the monitor's author", async () => {
  const text = [
    "\u00e9",
    "\u{1f600}",
    "---",
    "yes",
    "1",
    "null",
    "!!x",
    "*a",
    "a: b # c",
    "${x}",
    "$",
    "\\",
    "\u{e000}",
    "-",
    "?a",
    " ?",
    "a ? b",
    "|",
    ">",
    " a ",
    "%",
    "@",
    "0x1",
    "1:2",
    "~",
    '"',
    "'",
    "[",
    "{",
    ",",
  ];
  const relabelings = text.map((replacement): Relabeling => ({ targetLabel: "a", replacement, separator: replacement }));
  const params = Object.fromEntries(["match[]", "null", "1", "yes"].map((name) => [name, text]));
  const monitors = [
    serviceMonitor({ port: "metrics", params, relabelings, tlsConfig: { serverName: "a b" } }, { jobLabel: "constructor" }),
    serviceMonitor({ port: "metrics" }, { targetLabels: ["__proto__", "toString"] }),
    ...text.map((port) => podMonitor({ port: `p${port}` }, { jobLabel: port })),
  ].map((monitor, i) => ({ ...monitor, metadata: { namespace: "shop", name: `m${i}` } }));
  const { jobs, refused } = scrapeJobs(monitors, [SHOP], 30_000);
  expect([...refused]).toEqual([]);
  await validate(jobs);
});

async function validate(monitorJobs: readonly Rule[]): Promise<void> {
  const overlay = join(folder, "overlay.yaml");
  writeFileSync(overlay, "receivers: {kubeletstats: null, prometheus/cadvisor: null}\n");
  const { settings } = readSettings("cluster", {
    ...CLUSTER,
    STATE_DIR: folder,
    COLLECTOR_CONFIG_FILE: overlay,
    SIGNALS: "metrics",
    HOST_ROOT: "/",
  });
  const file = join(folder, "config.yaml");
  writeFileSync(file, configFromSettings(settings, { monitorJobs }));
  const env = { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: "1", KUBECONFIG: join(folder, "none") };
  await validateCollectorConfig(await toolPath("otelcol-contrib"), file, { env, memoryMib: 400 }, 100_000);
}
