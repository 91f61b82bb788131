// Provides undici's connection pool, and its agent for an outgoing proxy, without loading undici's index, which brings fetch, WebSocket,
// caches and mocks: 5 MB resident, and a fiftieth of the backend's start time. The folder `lib` is not undici's public interface:
// package.json pins the exact version, and http-pool.test.ts uses the pool in a process that loads nothing else.
import request from "undici/lib/api/api-request.js";
import Dispatcher from "undici/lib/dispatcher/dispatcher.js";
import Pool from "undici/lib/dispatcher/pool.js";

export { Pool };

// undici's index does the same for its whole API.
Object.assign(Dispatcher.prototype, { request });

export type ProxyAgentClass = typeof import("undici/lib/dispatcher/proxy-agent.js").default;

/** The agent for an outgoing proxy; imported only here, because few installations set a proxy. */
export async function loadProxyAgent(): Promise<ProxyAgentClass> {
  const [{ default: connect }, { default: ProxyAgent }] = await Promise.all([
    import("undici/lib/api/api-connect.js"),
    import("undici/lib/dispatcher/proxy-agent.js"),
  ]);
  // The tunnel of a proxy is opened with it.
  Object.assign(Dispatcher.prototype, { connect });
  return ProxyAgent;
}

/** Limits the wait for the proxy's tunnel: by undici's default, a proxy that does not respond would block a request for five minutes. */
export function proxyPool(origin: URL, options: object, timeoutMs: number): Pool {
  return new Pool(origin, { ...options, headersTimeout: timeoutMs });
}
