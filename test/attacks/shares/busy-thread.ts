// Runs the busy organisations in a thread of their own: hundreds of responses of megabytes would delay the clock of the idle organisation's
// requests, which would then measure their client. Run with `new BusyThread()`.
import { parentPort, Worker, workerData } from "node:worker_threads";
import { Agent } from "undici";
import type { Tenant } from "../../fixtures/backend-process.ts";
import type { Pressure } from "./busy.ts";
import { PRESSURES, type PressureName } from "./pressure.ts";

/** Makes these organisations busy, or, without them, ends the pressure. */
interface Order {
  readonly apiUrl: string;
  readonly kind: PressureName;
  readonly tenants: readonly Tenant[];
}

/** How often each answer came to the busy organisations. */
export type Answers = Record<string, number>;

const NAME = "busy organisations";

export class BusyThread implements AsyncDisposable {
  readonly #worker = new Worker(new URL(import.meta.url), { workerData: NAME });

  /** Resolves when everything that the pressure needs is stored and the organisations are busy. */
  async begin(order: Order): Promise<void> {
    await this.#ask(order);
  }

  async end(): Promise<Answers> {
    return await this.#ask(undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }

  async #ask(order: Order | undefined): Promise<Answers> {
    const { promise, resolve, reject } = Promise.withResolvers<Answers>();
    this.#worker.once("message", resolve).once("error", reject);
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    this.#worker.postMessage(order);
    return await promise.finally(() => this.#worker.off("message", resolve).off("error", reject));
  }
}

const prepared = new Set<string>();

async function begin({ apiUrl, kind, tenants }: Order): Promise<() => Promise<Answers>> {
  const { prepare, run }: Pressure = PRESSURES[kind];
  for (const tenant of tenants) {
    const name = `${kind} ${tenant.orgId}`;
    if (!prepared.has(name)) await prepare?.({ apiUrl, tenant });
    prepared.add(name);
  }
  const over = new AbortController();
  const answers: Answers = {};
  const count = (answer: string): void => void (answers[answer] = (answers[answer] ?? 0) + 1);
  const agent = new Agent({ connections: null, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 });
  const shared = { apiUrl, agent, over: over.signal, others: tenants.length, count };
  const busy = tenants.map((tenant) => run({ ...shared, tenant }));
  return async () => {
    over.abort();
    await Promise.all(busy);
    await agent.destroy();
    return answers;
  };
}

if (workerData === NAME && parentPort) {
  const port = parentPort;
  let end: (() => Promise<Answers>) | undefined;
  const obey = async (order: Order | undefined): Promise<Answers> => {
    if (!order) return (await end?.()) ?? {};
    end = await begin(order);
    return {};
  };
  port.on("message", (order: Order | undefined) => {
    void obey(order).then((answers) => port.postMessage(answers));
  });
}
