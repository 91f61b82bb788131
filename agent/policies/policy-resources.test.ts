import { pino } from "pino";
import { expect, test } from "vitest";
import type { ObjectJson, WatchEvent } from "../kubernetes/api.ts";
import { type PoliciesApi, PolicyResources } from "./policy-resources.ts";

/** An API server with LogPolicy objects: a status is refused if the object has changed, and every watch sees it. */
class Api implements PoliciesApi {
  readonly objects: Map<string, ObjectJson>;
  readonly requests: string[] = [];
  /** A policy whose status the API server refuses to write. */
  refused = "";
  readonly #watches = new Set<(event: WatchEvent<ObjectJson>) => void>();

  constructor(objects: readonly ObjectJson[]) {
    this.objects = new Map(objects.map((object) => [object.metadata.name, object]));
  }

  listObjects: PoliciesApi["listObjects"] = async () =>
    Promise.resolve({ metadata: { resourceVersion: "1" }, items: [...this.objects.values()] });

  async *watchObjects(_path: string, _version: string, _time: unknown, signal: AbortSignal): AsyncGenerator<WatchEvent<ObjectJson>> {
    const waiting: WatchEvent<ObjectJson>[] = [];
    let wake = (): void => {};
    const send = (event: WatchEvent<ObjectJson>): void => (waiting.push(event), wake());
    this.#watches.add(send);
    while (!signal.aborted) {
      yield* waiting.splice(0);
      const { promise, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      signal.addEventListener("abort", () => resolve());
      if (waiting.length === 0 && !signal.aborted) await promise;
    }
  }

  patchStatus: PoliciesApi["patchStatus"] = async (path, patch) => {
    this.requests.push(path);
    const name = path.split("/").at(-1) ?? "";
    if (name === this.refused) throw new Error("denied by an admission webhook");
    const object = this.objects.get(name);
    const { metadata, status } = patch as { metadata: { resourceVersion: string }; status: unknown };
    if (object?.metadata.resourceVersion !== metadata.resourceVersion) throw new Error("Conflict");
    this.put({ ...object, status });
    return Promise.resolve();
  };

  put(object: ObjectJson): void {
    const resourceVersion = String(Number(object.metadata.resourceVersion) + 1);
    const changed = { ...object, metadata: { ...object.metadata, resourceVersion } };
    this.objects.set(object.metadata.name, changed);
    for (const send of this.#watches) send({ type: "MODIFIED", object: changed });
  }

  accepted(name: string): unknown {
    return (this.objects.get(name)?.status as { conditions?: unknown[] } | undefined)?.conditions?.[0];
  }
}

function policy(name: string, spec: unknown, created = 1): ObjectJson {
  const creationTimestamp = `2026-11-26T08:00:${String(created).padStart(2, "0")}Z`;
  return { metadata: { name, namespace: "shop", uid: name, resourceVersion: "1", generation: 1, creationTimestamp }, spec };
}

const log = pino({ level: "silent" });
const start = (api: Api, delayMs = (): number => 0) => new PolicyResources({ api, log, changed: () => {}, delayMs });

test("one of 50 agents writes a policy's status, again after a change, with the reason of a rejection", async () => {
  const api = new Api([policy("cards", { redact: "card=\\d+" })]);
  await using stack = new AsyncDisposableStack();
  // The others have time to see it.
  for (let agent = 0; agent < 50; agent += 1) stack.use(start(api, () => (agent === 7 ? 0 : 120_000)));
  await expect.poll(() => api.accepted("cards")).toMatchObject({ status: "True", observedGeneration: 1 });
  const object = api.objects.get("cards")!;
  api.put({ ...object, metadata: { ...object.metadata, generation: 2 }, spec: { redact: "(?=x)" } });
  await expect
    .poll(() => api.accepted("cards"), { timeout: 30_000 })
    .toMatchObject({
      status: "False",
      observedGeneration: 2,
      message: "is not a supported RE2 regular expression",
    });
  expect(api.requests).toEqual(Array.from({ length: 2 }, () => "/apis/atherops.io/v1alpha1/namespaces/shop/logpolicies/cards"));
});

test("retries a status that cannot be written, and writes the others", async () => {
  const api = new Api([policy("denied", { redact: "pin" }, 1), policy("cards", { redact: "card" }, 2)]);
  api.refused = "denied";
  await using _ = start(api);
  await expect.poll(() => api.accepted("cards"), { timeout: 30_000 }).toMatchObject({ status: "True" });
  api.refused = "";
  await expect.poll(() => api.accepted("denied"), { timeout: 30_000 }).toMatchObject({ status: "True" });
});

test("finds valid policies that select a pod, oldest first, and names invalid ones and those beyond the limit", async () => {
  const web = { matchLabels: { app: "web" } };
  const many = Array.from({ length: 7 }, (_, i) => policy(`more-${i}`, { logs: true }, 20 + i));
  const api = new Api([
    policy("young", { selector: web, samplePercent: 10, bytesPerSecond: 5000 }, 9),
    policy("old", { redact: "pin" }, 1),
    policy("bad", { selector: web, samplePercent: 101 }, 2),
    policy("other", { selector: { matchLabels: { app: "db" } }, logs: false }, 3),
    ...many,
  ]);
  await using resources = start(api, () => 120_000);
  await resources.known;
  const names = (labels: Record<string, string>, namespace = "shop"): string[] =>
    resources.selecting({ namespace, labels }).map(({ name }) => name);
  expect(names({ app: "web" }).slice(0, 2)).toEqual(["old", "young"]);
  expect(names({ app: "web" })).toHaveLength(6);
  expect(names({ app: "db" }).slice(0, 2)).toEqual(["old", "other"]);
  expect(names({ app: "web" }, "elsewhere")).toEqual([]);
  expect(Object.fromEntries(resources.refused)).toEqual({
    "LogPolicy shop/bad": "must be a whole number from 0 to 100",
    ...Object.fromEntries([4, 5, 6].map((i) => [`LogPolicy shop/more-${i}`, "exceeds the limit of 8 policies per namespace"])),
  });
});
