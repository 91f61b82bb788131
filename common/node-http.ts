// node:http, taken without an import statement. Invariant: nothing of either program imports a value of node:http, only types. Such an
// import reads every name that the module has, WebSocket among them, and that loads Node's own copy of undici: 40 ms of CPU and 14 MB
// resident for an unused class (node-http.test.ts looks for it in a process that has loaded a whole program).
export const { createServer, METHODS, request, ServerResponse, STATUS_CODES } = process.getBuiltinModule("node:http");
