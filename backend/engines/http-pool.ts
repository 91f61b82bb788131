// undici's connection pool and nothing else of it, for what speaks HTTP to engines. Invariant: its index is not loaded, for it brings
// fetch, WebSocket, caches and mocks along: 5 MB resident, and a fiftieth of the backend's start. The folder `lib` is undici's own and not its
// interface: package.json names the version exactly, and http-pool.test.ts drives this in a process that loads nothing else.
import request from "undici/lib/api/api-request.js";
import Dispatcher from "undici/lib/dispatcher/dispatcher.js";
import Pool from "undici/lib/dispatcher/pool.js";

export { Pool };

// As undici's index does for its whole API.
Object.assign(Dispatcher.prototype, { request });
