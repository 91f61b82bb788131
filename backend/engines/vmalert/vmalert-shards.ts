// Distributes the groups of all organisations over several vmalerts, so that each rule is evaluated once, and queries all of them as if
// they were one. Invariant: for a given number of shards, the same group name always belongs to the same shard; vmalert number i reads its
// rules with `?shard=i/n`, and is entry i of the list of n URLs.
import { createHash } from "node:crypto";
import type { AnswerBudget, LoadedGroup, RuleFilter, VmalertClient } from "./vmalert-client.ts";

export interface Evaluator extends Pick<VmalertClient, "groups" | "ping"> {
  /** Makes the vmalerts of these groups reload their rules. Others are left alone, because a reload of 50,000 rules takes 6 s of CPU. */
  reload(groups: readonly string[]): Promise<void>;
  /** Whether any vmalert of these groups refused its last reload. */
  refusedLastReload(groups: readonly string[]): Promise<boolean>;
}

/** One of `count` parts of all groups. */
export interface Shard {
  readonly index: number;
  readonly count: number;
}

/** Ends the name of a second group with the same rules file, which is in the same shard. */
export const SECOND_GROUP = "-slo";

export function isInShard(group: string, { index, count }: Shard): boolean {
  const first = group.endsWith(SECOND_GROUP) ? group.slice(0, -SECOND_GROUP.length) : group;
  return count === 1 || createHash("sha256").update(first).digest().readUInt32BE(0) % count === index;
}

/** `i/n`; undefined if invalid. */
export function parseShard(text: string): Shard | undefined {
  const [, index, count] = /^(\d{1,3})\/([1-9]\d{0,2})$/.exec(text) ?? [];
  return count !== undefined && Number(index) < Number(count) ? { index: Number(index), count: Number(count) } : undefined;
}

export class ShardedEvaluator implements Evaluator, AsyncDisposable {
  readonly #clients: readonly VmalertClient[];

  constructor(clients: readonly VmalertClient[]) {
    this.#clients = clients;
  }

  /** Queries only the shards of the named groups. */
  async groups(filter: RuleFilter = {}, budget?: AnswerBudget): Promise<readonly LoadedGroup[]> {
    const { groups: names } = filter;
    const answers = this.#clients.flatMap((client, index) => {
      const shard = { index, count: this.#clients.length };
      const groups = names?.filter((name) => isInShard(name, shard));
      return groups?.length === 0 && names?.length !== 0 ? [] : client.groups({ ...filter, ...(groups && { groups }) }, budget);
    });
    return (await Promise.all(answers)).flat();
  }

  async ping(): Promise<void> {
    await askAll(this.#clients, (client) => client.ping());
  }

  async reload(groups: readonly string[]): Promise<void> {
    await askAll(this.#having(groups), (client) => client.reload());
  }

  async refusedLastReload(groups: readonly string[]): Promise<boolean> {
    return (await askAll(this.#having(groups), (client) => client.refusedLastReload())).includes(true);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await askAll(this.#clients, (client) => client[Symbol.asyncDispose]());
  }

  #having(groups: readonly string[]): VmalertClient[] {
    return this.#clients.filter((_, index) => groups.some((group) => isInShard(group, { index, count: this.#clients.length })));
  }
}

/** An unavailable vmalert does not keep the others from being queried. */
async function askAll<T>(clients: readonly VmalertClient[], ask: (client: VmalertClient) => Promise<T>): Promise<T[]> {
  const outcomes = await Promise.allSettled(clients.map(ask));
  return outcomes.map((outcome) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  });
}
