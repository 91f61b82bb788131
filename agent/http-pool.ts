// Loads undici's connection pools without the rest of undici. Invariant: undici's index is not loaded, because it also loads fetch, WebSocket,
// caches and mocks, some 4 MB of memory on every node. The folder `lib` is not part of undici's public interface (undici-lib.d.ts declares the
// types of its files), so package.json pins the exact version, and pool.test.ts tests the pools in a process that loads no other code,
// unbundled and bundled.
import connect from "undici/lib/api/api-connect.js";
import request from "undici/lib/api/api-request.js";
import Agent from "undici/lib/dispatcher/agent.js";
import Dispatcher from "undici/lib/dispatcher/dispatcher.js";
import Pool from "undici/lib/dispatcher/pool.js";
import ProxyAgent from "undici/lib/dispatcher/proxy-agent.js";

export { Agent, type Dispatcher, Pool, ProxyAgent };

// undici's index does the same for its whole API. `connect` opens the tunnel through a proxy.
Object.assign(Dispatcher.prototype, { request, connect });
