// Single sign-on when the identity provider can be reached only through an outgoing proxy: the backend as its image runs it, a real
// provider behind TLS with a name that only the proxy can resolve, and a browser.
import { request } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { afterAll, beforeAll, expect, test } from "vitest";
import { authority, listening, type OutgoingProxy, outgoingProxy } from "../../agent/upstream/outgoing-proxy.fixture.ts";
import { backendPlace, type BackendPlace, bundledBackend, startBackend } from "../fixtures/backend-process.ts";
import { CLIENT_SECRET, IdentityProvider } from "../fixtures/identity-provider.ts";
import { readIfThere, temporaryFolder } from "../fixtures/processes.ts";

const HOST = "login.company.test";
const ACCOUNT = "anna";

const stack = new AsyncDisposableStack();
let place: BackendPlace;
let provider: IdentityProvider;
let proxy: OutgoingProxy;

beforeAll(async () => {
  const folder = stack.use(temporaryFolder());
  place = await backendPlace(folder.path);
  provider = stack.use(await IdentityProvider.start(`${place.apiUrl}/api/auth/oidc/callback`, 0, `https://${HOST}`));
  await provider.account(ACCOUNT, { email: "anna@company.test", email_verified: true, groups: ["people"] });
  const { caFile, key, cert } = authority(folder.path, "company", HOST);
  const tls = await listening(createTlsServer({ key, cert }, toProvider));
  stack.defer(() => void tls.close());
  proxy = await outgoingProxy(tls.port);
  stack.defer(() => void proxy.close());
  Object.assign(place.env, {
    HTTPS_PROXY: `http://user:hidden-word@127.0.0.1:${proxy.port}`,
    NODE_EXTRA_CA_CERTS: caFile,
    OIDC_ISSUER: provider.issuer,
    OIDC_CLIENT_ID: "atherops",
    OIDC_CLIENT_SECRET: CLIENT_SECRET,
    OIDC_SCOPES: "openid email groups",
    OIDC_GROUPS: JSON.stringify({ people: { org: "default", role: "viewer" } }),
  });
  stack.use(await startBackend(place, [], await bundledBackend(folder.path)));
});
afterAll(() => stack.disposeAsync());

const toProvider: Parameters<typeof createTlsServer>[1] = (asked, answer) => {
  const { method = "GET", url: path = "/" } = asked;
  const headers = { ...asked.headers, "x-forwarded-proto": "https", "x-forwarded-host": HOST };
  const onward = request({ port: provider.port, host: "127.0.0.1", method, path, headers }, (answered) => {
    answer.writeHead(answered.statusCode ?? 502, answered.headers);
    answered.pipe(answer);
  });
  asked.pipe(onward.on("error", () => answer.destroy()));
};

/** From the beginning to where the provider leads the browser, and the cookies of that. */
async function begun(): Promise<{ at: URL; cookie: string }> {
  const answer = await fetch(`${place.apiUrl}/api/auth/oidc/start`, { redirect: "manual" });
  expect(answer.status, await answer.text()).toBe(302);
  const cookie = answer.headers
    .getSetCookie()
    .map((set) => set.split(";")[0])
    .join("; ");
  return { at: await provider.through(String(answer.headers.get("location")), ACCOUNT), cookie };
}

test("a user logs in through tunnels of the proxy to the provider only", async () => {
  const { at, cookie } = await begun();
  const done = await fetch(at, { headers: { cookie } });
  expect([done.status, await done.json()]).toMatchObject([200, { email: "anna@company.test", role: "viewer", org: { name: "default" } }]);
  expect(new Set(proxy.asked)).toEqual(new Set([`CONNECT ${HOST}:443`]));
  expect(new Set(proxy.authorized)).toEqual(new Set([`Basic ${Buffer.from("user:hidden-word").toString("base64")}`]));
  expect(readIfThere(place.logFile)).not.toContain("hidden-word");
});

test("reports an unavailable proxy as an unreachable provider, and passwords still work", async () => {
  const { at, cookie } = await begun();
  await proxy.close();
  const refused = await fetch(at, { headers: { cookie } });
  expect([refused.status, await refused.json()]).toEqual([
    503,
    { error: "unavailable", message: "the identity provider cannot be reached" },
  ]);
  expect(refused.headers.get("retry-after")).toBe("5");
  const body = JSON.stringify({ email: "unknown@company.test", password: "wrong" });
  const login = await fetch(`${place.apiUrl}/api/auth/login`, { method: "POST", headers: { "content-type": "application/json" }, body });
  expect(login.status).toBe(401);
});
