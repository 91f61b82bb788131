// undici's connection pools and nothing else of it. Invariant: its index is not loaded, for it brings fetch, WebSocket, caches and mocks
// along, some 4 MB resident on every node and more for each garbage collection to walk through. The folder `lib` is undici's own and
// not its interface (undici-lib.d.ts gives its files their types): package.json names the version exactly, and pool.test.ts drives all
// of this in a process that loads nothing else, as it is and bundled, for the index would put in place what is missing here.
import connect from "undici/lib/api/api-connect.js";
import request from "undici/lib/api/api-request.js";
import Agent from "undici/lib/dispatcher/agent.js";
import Dispatcher from "undici/lib/dispatcher/dispatcher.js";
import Pool from "undici/lib/dispatcher/pool.js";
import ProxyAgent from "undici/lib/dispatcher/proxy-agent.js";

export { Agent, type Dispatcher, Pool, ProxyAgent };

// As undici's index does for its whole API. `connect` is what a proxy's tunnel is opened with.
Object.assign(Dispatcher.prototype, { request, connect });
