// The organisations that are busy in a measurement of shares: what a kind of pressure is, and requests that are repeated without a pause.
import { setTimeout as sleep } from "node:timers/promises";
import { type Agent, request } from "undici";
import { sign } from "../../../common/protocol/signature.ts";
import type { Tenant } from "../../fixtures/backend-process.ts";

export interface Busy {
  readonly apiUrl: string;
  readonly tenant: Tenant;
  readonly agent: Agent;
  readonly over: AbortSignal;
  /** Number of organisations that are busy. */
  readonly others: number;
  /** Counts how often each answer came. */
  readonly count: (answer: string) => void;
}

export interface Pressure {
  readonly what: string;
  /** Stores what it needs, once for each organisation. */
  readonly prepare?: (busy: Pick<Busy, "apiUrl" | "tenant">) => Promise<void>;
  /** Runs until `over` aborts. */
  readonly run: (busy: Busy) => Promise<unknown>;
}

/** A request of an organisation's administrator, or with its key. */
export interface BusyCall {
  readonly method?: "GET" | "POST" | "PUT";
  readonly path: string;
  readonly body?: Buffer | string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly isSigned?: boolean;
}

function headersOf({ token, apiKey }: Tenant, { method = "GET", path, headers, isSigned }: BusyCall): Record<string, string> {
  const credential = isSigned ? sign(apiKey, method, path, Date.now() / 1000) : { authorization: `Bearer ${token}` };
  return { ...credential, "content-type": "application/json", ...headers };
}

/** `atOnce` requests at all times. */
export async function keepCalling({ apiUrl, tenant, agent, over, count }: Busy, atOnce: number, callOf: () => BusyCall): Promise<void> {
  const one = async (): Promise<void> => {
    while (!over.aborted) {
      try {
        const call = callOf();
        const { method = "GET", path, body = null } = call;
        const headers = headersOf(tenant, call);
        const answer = await request(apiUrl + path, { method, headers, body, dispatcher: agent, signal: over });
        const text = await answer.body.text();
        count(`${answer.statusCode} ${/"error":\s*"(\w+)"/.exec(text)?.[1] ?? ""}`.trim());
        if (answer.statusCode >= 400) await sleep(100, undefined, { signal: over });
      } catch (error) {
        if (!over.aborted) count(`no answer ${(error as Error).name}`);
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, one));
}
