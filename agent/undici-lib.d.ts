// Types of undici's files that http-pool.ts imports, taken from the declarations of undici's index.
declare module "undici/lib/dispatcher/agent.js" {
  export { Agent as default } from "undici";
}
declare module "undici/lib/dispatcher/pool.js" {
  export { Pool as default } from "undici";
}
declare module "undici/lib/dispatcher/dispatcher.js" {
  export { Dispatcher as default } from "undici";
}
declare module "undici/lib/dispatcher/proxy-agent.js" {
  export { ProxyAgent as default } from "undici";
}
declare module "undici/lib/api/api-request.js" {
  const request: unknown;
  export default request;
}
declare module "undici/lib/api/api-connect.js" {
  const connect: unknown;
  export default connect;
}
