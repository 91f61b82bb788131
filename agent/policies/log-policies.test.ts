import { appendFileSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { pino } from "pino";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import type { ObjectJson, WatchEvent } from "../kubernetes/api.ts";
import { LogPolicies } from "./log-policies.ts";
import type { PoliciesApi } from "./policy-resources.ts";
import { redactPattern, sampleThreshold } from "./policy-values.ts";

/** Namespaces with these annotations; `annotate` changes one. */
class Api implements PoliciesApi {
  readonly #namespaces: Record<string, Record<string, string>>;
  readonly #policies: readonly ObjectJson[];
  #send: (event: WatchEvent<ObjectJson>) => void = () => {};

  constructor(namespaces: Record<string, Record<string, string>>, policies: readonly ObjectJson[]) {
    this.#namespaces = namespaces;
    this.#policies = policies;
  }

  patchStatus: PoliciesApi["patchStatus"] = async () => Promise.resolve();

  listObjects: PoliciesApi["listObjects"] = async (path) => {
    if (path.endsWith("/logpolicies")) return Promise.resolve({ metadata: { resourceVersion: "1" }, items: this.#policies });
    const items = Object.entries(this.#namespaces).map(([name, annotations]) => namespace(name, annotations));
    return Promise.resolve({ metadata: { resourceVersion: "1" }, items });
  };

  async *watchObjects(path: string, _version: string, _time: unknown, signal: AbortSignal): AsyncGenerator<WatchEvent<ObjectJson>> {
    while (!signal.aborted) {
      const { promise, resolve, reject } = Promise.withResolvers<WatchEvent<ObjectJson>>();
      signal.addEventListener("abort", () => reject(new Error("stopped")));
      if (path.endsWith("/namespaces")) this.#send = resolve;
      yield await promise;
    }
  }

  annotate(name: string, annotations: Record<string, string>): void {
    this.#send({ type: "MODIFIED", object: namespace(name, annotations) });
  }
}

function namespace(name: string, annotations: Record<string, string>): ObjectJson {
  // A higher number is older.
  const creationTimestamp = new Date(1e12 - Number(name.replace(/\D/g, "")) * 1000).toISOString();
  return { metadata: { name, uid: name, resourceVersion: "2", annotations, creationTimestamp } };
}

const pod = (annotations: Record<string, string>, ofNamespace = "shop"): string =>
  JSON.stringify({ metadata: { name: "web-1", namespace: ofNamespace, annotations } });
const log = pino({ level: "silent" });

async function known(
  namespaces: Record<string, Record<string, string>>,
  nowMs = Date.now,
  objects: readonly ObjectJson[] = [],
): Promise<{ policies: LogPolicies; api: Api }> {
  const api = new Api(namespaces, objects);
  const policies = new LogPolicies({ api, log, nowMs });
  await policies.known;
  return { policies, api };
}

test("a pod's annotation takes precedence over its namespace's, and redactions add up", async () => {
  const { policies } = await known({
    shop: { "atherops.io/logs": "false", "atherops.io/logs-sample-percent": "50", "atherops.io/logs-redact": "(?i)card=\\d+" },
  });
  await using _ = policies;
  const resolved = (annotations: Record<string, string>, ofNamespace?: string): unknown =>
    JSON.parse(policies.resolve(pod(annotations, ofNamespace))).metadata.annotations;
  expect(resolved({ owner: "me" })).toEqual({
    owner: "me",
    "atherops.io/logs": "false",
    "effective.atherops.io/redact": "(?:(?i)card=\\d+)",
    "effective.atherops.io/sample-below": "8000",
  });
  expect(resolved({ "atherops.io/logs": "true", "atherops.io/logs-sample-percent": "100", "atherops.io/logs-redact": "pin" })).toEqual({
    "atherops.io/logs": "true",
    "effective.atherops.io/redact": "(?:(?i)card=\\d+)|(?:pin)",
  });
  expect(resolved({}, "other")).toEqual({});
});

test("ignores and reports an invalid annotation, and lists the effective ones", async () => {
  const { policies } = await known({ shop: { "atherops.io/logs-sample-percent": "50", "atherops.io/logs-fields": "no" } });
  await using _ = policies;
  const source = pod({ "atherops.io/logs-redact": "(?=x)", "atherops.io/logs-sample-percent": "101" });
  expect(JSON.parse(policies.resolve(source)).metadata.annotations).toEqual({ "effective.atherops.io/sample-below": "8000" });
  policies.sources = () => [source];
  expect(policies.status()).toEqual({
    effective: { "shop/web-1": { samplePercent: 50 } },
    refused: {
      "shop/web-1 atherops.io/logs-sample-percent": "must be a whole number from 0 to 100",
      "shop/web-1 atherops.io/logs-redact": "is not a supported RE2 regular expression",
      "shop atherops.io/logs-fields": 'must be "true" or "false"',
    },
    dropped: 0,
    rateLimitedBytes: {},
  });
});

test("a LogPolicy ranks between the pod's and the namespace's annotation, and the lowest limit of a pod applies", async () => {
  const meta = { namespace: "shop", resourceVersion: "1", generation: 1 };
  const spec = { redact: "pin", samplePercent: 25, logs: false, bytesPerSecond: 4000 };
  const objects = [{ metadata: { ...meta, name: "cards", uid: "c" }, spec }];
  const namespaces = {
    shop: { "atherops.io/logs-sample-percent": "50", "atherops.io/logs-redact": "card", "atherops.io/logs-bytes-per-second": "9000" },
  };
  const { policies } = await known(namespaces, Date.now, objects);
  await using _ = policies;
  const source = pod({ "atherops.io/logs": "true", "atherops.io/logs-bytes-per-second": "5000" });
  expect(JSON.parse(policies.resolve(source)).metadata.annotations).toEqual({
    "atherops.io/logs": "true",
    "effective.atherops.io/redact": "(?:card)|(?:pin)",
    "effective.atherops.io/sample-below": "4000",
  });
  policies.sources = () => [source];
  expect(policies.status().effective).toEqual({
    "shop/web-1": {
      logs: true,
      samplePercent: 25,
      redact: "(?:card)|(?:pin)",
      policies: ["cards"],
      bytesPerSecond: 4000,
      namespaceBytesPerSecond: 9000,
    },
  });
});

test("reduces the share of a pod above its limit, and lists it with the dropped lines", async () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "shop_web-1_uid", "app", "0.log");
  mkdirSync(dirname(file), { recursive: true });
  let nowMs = 0;
  const api = new Api({ shop: { "atherops.io/logs-bytes-per-second": "1000" } }, []);
  await using policies = new LogPolicies({ api, log, nowMs: () => nowMs, logsFolder: folder.path });
  await policies.known;
  policies.sources = () => [pod({})];
  for (nowMs = 0; nowMs <= 20_000; nowMs += 5000) {
    appendFileSync(file, "x".repeat(20_000));
    await policies.rates.measure();
  }
  expect(policies.resolve(pod({}))).toContain('"effective.atherops.io/sample-below":"4000"');
  expect(policies.status()).toMatchObject({
    effective: { "shop/web-1": { namespaceBytesPerSecond: 1000, keptPercent: 25, droppedBytes: 45_000 } },
    rateLimitedBytes: { shop: 45_000 },
  });
});

test("resolves the pods of a changed namespace again, and changes the configuration at most every five minutes", async () => {
  let nowMs = 0;
  const { policies, api } = await known({ shop: { "atherops.io/logs-multiline-start": "^a" } }, () => nowMs);
  await using _ = policies;
  expect(policies.ofNamespaces()).toEqual([{ namespace: "shop", multilineStart: "^a", readsFields: undefined }]);
  const changed = new Promise<void>((resolve) => (policies.changed = resolve));
  api.annotate("shop", { "atherops.io/logs-fields": "false", "atherops.io/logs": "false" });
  await changed;
  expect(policies.resolve(pod({}))).toContain('"atherops.io/logs":"false"');
  nowMs = 299_999;
  expect(policies.ofNamespaces()).toMatchObject([{ multilineStart: "^a" }]);
  nowMs = 300_000;
  expect(policies.ofNamespaces()).toEqual([{ namespace: "shop", multilineStart: undefined, readsFields: false }]);
});

test("limits the memory for long annotations of namespaces, and counts the namespaces that do not fit", async () => {
  const junk = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`junk-${i}`, { "atherops.io/logs-redact": "x".repeat(250_000) }]));
  const { policies } = await known(junk);
  await using _ = policies;
  expect(policies.status().dropped).toBe(0);
  const many = Object.fromEntries(Array.from({ length: 9000 }, (_, i) => [`n${i}`, { "atherops.io/logs-redact": "x".repeat(250) }]));
  const others = await known(many);
  await using __ = others.policies;
  expect(others.policies.status().dropped).toBeGreaterThan(0);
});

test("large LogPolicy objects of other namespaces evict no redaction, and a namespace with too many is not read", async () => {
  const policy = (ofNamespace: string, name: string, spec: object): ObjectJson => ({
    metadata: { name, namespace: ofNamespace, uid: `${ofNamespace}/${name}`, resourceVersion: "1", generation: 1 },
    spec,
  });
  const selector = { matchExpressions: [{ key: "app", operator: "In", values: Array.from({ length: 60 }, () => "v".repeat(60)) }] };
  const large = (ofNamespace: string, count: number): ObjectJson[] =>
    Array.from({ length: count }, (_, i) => policy(ofNamespace, `p${i}`, { selector, samplePercent: 100 }));
  // 60 KB each, 15 MB together.
  const others = Array.from({ length: 250 }, (_, i) => large(`team-${i}`, 15));
  const objects = [...large("greedy", 20), ...others.flat(), policy("shop", "cards", { redact: "card" })];
  const { policies } = await known({}, Date.now, objects);
  await using _ = policies;
  const annotationsOf = (source: string): unknown => JSON.parse(policies.resolve(source)).metadata.annotations;
  expect(annotationsOf(pod({}))).toEqual({ "effective.atherops.io/redact": "(?:card)" });
  expect(annotationsOf(pod({ "atherops.io/logs": "true" }, "greedy"))).toEqual({ "atherops.io/logs": "false" });
  const { refused, dropped } = policies.status();
  expect(refused["namespace greedy"]).toContain("pod logs are not sent");
  expect(refused).not.toHaveProperty("namespace shop");
  expect(dropped).toBeGreaterThan(1000);
});

test("reads no logs of a namespace whose own annotations are unknown", async () => {
  const many = Object.fromEntries(Array.from({ length: 9000 }, (_, i) => [`n${i}`, { "atherops.io/logs-redact": "x".repeat(250) }]));
  const { policies } = await known(many);
  await using _ = policies;
  const resolved = Object.keys(many).map((name) => policies.resolve(pod({}, name)));
  expect(resolved.every((text) => text.includes('"atherops.io/logs":"false"') || text.includes('redact":"(?:xxx'))).toBe(true);
});

test("lets at most 100 namespaces, the oldest, change the configuration, and lists the others", async () => {
  // In the order of their age, see `namespace`.
  const names = Array.from({ length: 101 }, (_, i) => `n${300 - i}`);
  const { policies } = await known(Object.fromEntries(names.map((name) => [name, { "atherops.io/logs-fields": "false" }])));
  await using _ = policies;
  expect(policies.ofNamespaces().map(({ namespace }) => namespace)).toEqual(names.slice(0, 100));
  expect(policies.status().refused).toEqual({ "n200 atherops.io/logs-fields": "is beyond the limit of 100 namespaces" });
});

test.each([
  "",
  "a*",
  "^",
  "\\b",
  "(?:a|\\B)?",
  "$|a",
  "[a]*$",
  "(?i)x?",
  "(?:a*|b)+",
  "(?:x|(?:a{0,3}?b??)){2}",
  "[)]*",
  "(a{1000}){1000}",
  "a".repeat(257),
  "a\nb",
  "(a)\\1",
])("rejects the redaction %j", (pattern) =>
  expect(() => redactPattern(pattern)).toThrow(/matches empty text|longer|not a supported RE2 regular expression/),
);

// V8 would need minutes to match the last one.
test.each(["[*]", "\\*", "(?:a|b+)c*", "(?:a*|b*){3}x", "[^\\]a]|b", "a{10}", "(?:a*|b*|c*|d*){20}x"])(
  "accepts the redaction %j as not empty",
  (pattern) => expect(redactPattern(pattern)).toBe(pattern),
);

test.each(["a+", "^card=\\d+$", "[$^*]", "\\$", "(?i)password=\\S+", "\\b\\d{4}\\b"])("accepts the redaction %j", (pattern) =>
  expect(redactPattern(pattern)).toBe(pattern),
);

test("converts a percentage to a threshold for hashes", () => {
  const hashes = Array.from({ length: 65_536 }, (_, i) => i.toString(16).padStart(4, "0"));
  const share = (percent: number): number => hashes.filter((hash) => hash < sampleThreshold(percent)).length / hashes.length;
  expect([0, 1, 50, 99, 100].map((percent) => Math.round(share(percent / 100) * 100))).toEqual([0, 1, 50, 99, 100]);
});
