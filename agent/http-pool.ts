// undici's connection pools and nothing else of it. Invariant: its index is not loaded, for it brings fetch, WebSocket, caches and mocks
// along, some 4 MB resident on every node and more for each garbage collection to walk through. The folder `lib` is undici's own and
// not its interface: package.json names the version exactly, and upstream.test.ts drives all of this in a process that loads nothing
// else, for the index would put in place what is missing here.
import { createRequire } from "node:module";
import type * as Undici from "undici";

export type { Dispatcher } from "undici";

const load = createRequire(import.meta.url);

export const Agent = load("undici/lib/dispatcher/agent.js") as typeof Undici.Agent;
export const Pool = load("undici/lib/dispatcher/pool.js") as typeof Undici.Pool;
export type Pool = Undici.Pool;

/** Loaded when there is a proxy to go through. */
export function proxyAgent(options: Undici.ProxyAgent.Options): Undici.ProxyAgent {
  const ProxyAgent = load("undici/lib/dispatcher/proxy-agent.js") as typeof Undici.ProxyAgent;
  return new ProxyAgent(options);
}

// As undici's index does for its whole API. `connect` is what a proxy's tunnel is opened with.
const Dispatcher = load("undici/lib/dispatcher/dispatcher.js") as { prototype: object };
Object.assign(Dispatcher.prototype, { request: load("undici/lib/api/api-request.js"), connect: load("undici/lib/api/api-connect.js") });
