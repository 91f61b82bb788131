// undici's connection pools and nothing else of it. Invariant: its index is not loaded, for it brings fetch, WebSocket, caches and mocks
// along, 10 MB resident on every node and 3 MB for each garbage collection to walk through. The folder `lib` is undici's own and not
// its interface: package.json names the version exactly, and upstream.test.ts drives all of this. Used by upstream.ts and kubernetes/api.ts.
import { createRequire } from "node:module";
import type * as Undici from "undici";

export type { Dispatcher } from "undici";

const load = createRequire(import.meta.url);

export const Agent = load("undici/lib/dispatcher/agent.js") as typeof Undici.Agent;
export const Pool = load("undici/lib/dispatcher/pool.js") as typeof Undici.Pool;
export type Pool = Undici.Pool;

/** Loaded when there is a proxy to go through. */
export function proxyAgent(options: Undici.EnvHttpProxyAgent.Options): Undici.EnvHttpProxyAgent {
  const EnvHttpProxyAgent = load("undici/lib/dispatcher/env-http-proxy-agent.js") as typeof Undici.EnvHttpProxyAgent;
  return new EnvHttpProxyAgent(options);
}

// As undici's index does for its whole API.
const Dispatcher = load("undici/lib/dispatcher/dispatcher.js") as { prototype: object };
Object.assign(Dispatcher.prototype, { request: load("undici/lib/api/api-request.js") });
