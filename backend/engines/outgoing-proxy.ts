// undici's agent for an outgoing proxy and nothing else of it, beside http-pool.ts and by the same rules. Loaded only where a proxy is set.
import connect from "undici/lib/api/api-connect.js";
import Dispatcher from "undici/lib/dispatcher/dispatcher.js";
import ProxyAgent from "undici/lib/dispatcher/proxy-agent.js";
import { Pool } from "./http-pool.ts";

export { ProxyAgent };

// As undici's index does for its whole API: a proxy's tunnel is opened with it.
Object.assign(Dispatcher.prototype, { connect });

/** Its tunnels are asked for in time, too. */
export function proxyPool(origin: URL, options: object, timeoutMs: number): Pool {
  return new Pool(origin, { ...options, headersTimeout: timeoutMs });
}
