// Checks the backend: DNS, network path, certificate, clock, and whether it accepts the agent's key.
import { lookup } from "node:dns/promises";
import { bareHost } from "../../../common/ip-networks.ts";
import { isExempt } from "../../../common/no-proxy.ts";
import type { Clock } from "../../upstream/clock.ts";
import type { Credential } from "../../credentials/credential-store.ts";
import { BackendError, type BackendApi } from "../../upstream/backend-api.ts";
import type { Secrets, Settings } from "../../settings.ts";
import type { Upstream } from "../../upstream/pool.ts";
import { certificateProblem, codeOf, type Finding, messageOf } from "./check.ts";

/** Requests are signed with the backend's time, but telemetry has this machine's time. */
const WARN_SKEW_S = 30;
/** Beyond this difference, the backend refuses requests that other programs on this machine sign. */
const FAIL_SKEW_S = 300;

export async function checkName(
  { backendUrl, noProxy = "" }: Pick<Settings, "backendUrl" | "noProxy">,
  secrets: Pick<Secrets, "httpsProxy" | "httpProxy">,
): Promise<Finding[]> {
  const name = "DNS";
  const { hostname, protocol } = new URL(backendUrl);
  const host = bareHost(hostname);
  try {
    const addresses = await lookup(host, { all: true });
    return [{ name, status: "ok", detail: `${host} is ${addresses.map(({ address }) => address).join(", ")}` }];
  } catch (error) {
    if ((protocol === "https:" ? secrets.httpsProxy : secrets.httpProxy) !== undefined && !isExempt(backendUrl, noProxy)) {
      const advice = "the outgoing proxy may resolve the name; see the backend check";
      return [{ name, status: "skipped", detail: `${host} cannot be resolved locally: ${messageOf(error)}`, advice }];
    }
    const advice = "check the name in BACKEND_URL, and the resolver of this machine or pod (/etc/resolv.conf)";
    return [{ name, status: "fail", detail: `${host} cannot be resolved: ${messageOf(error)}`, advice }];
  }
}

export async function checkBackend({ backendUrl }: Pick<Settings, "backendUrl">, upstream: Upstream, clock: Clock): Promise<Finding[]> {
  const sentAtMs = Date.now();
  const transport = backendUrl.startsWith("https:") ? "TLS" : "plain http";
  try {
    const answer = await upstream.request({ method: "GET", path: "/openapi.json", signal: AbortSignal.timeout(10_000) });
    clock.observe(answer.headers["date"], sentAtMs, Date.now());
    const reached: Finding = { name: "backend", status: "ok", detail: `answers over ${transport} in ${Date.now() - sentAtMs} ms` };
    return [answer.status === 200 ? reached : unexpectedStatus(answer.status), clockFinding(clock)];
  } catch (error) {
    return [{ name: "backend", status: "fail", detail: messageOf(error), advice: adviceFor(error) }];
  }
}

function unexpectedStatus(status: number): Finding {
  const detail = `answers ${status}`;
  if (status < 500) {
    const advice = "the backend answers GET /openapi.json with 200: check whether BACKEND_URL points to another server or to a proxy";
    return { name: "backend", status: "warn", detail, advice };
  }
  const advice = "check the backend's /readyz; telemetry stays in this agent's disk queue";
  return { name: "backend", status: "fail", detail, advice };
}

const CERTIFICATE_ADVICE = {
  expired: "renew the backend's certificate; if it is valid, correct this machine's clock",
  "other name": "use a host name of the certificate in BACKEND_URL, or add this name to the certificate",
  "unknown authority":
    "set BACKEND_CA_FILE (chart: backendCa) to the PEM of the authority that signed the backend's certificate; if that is a public authority, check which server responds",
} as const;

function adviceFor(error: unknown): string {
  const problem = certificateProblem(error);
  if (problem) return CERTIFICATE_ADVICE[problem];
  if (messageOf(error).includes("407"))
    return "the outgoing proxy requires credentials: HTTPS_PROXY=http://user:password@host:port (percent-encoded)";
  if (/Proxy response|UND_ERR_PRX/.test(messageOf(error)))
    return "the outgoing proxy rejects the connection: configure it to allow CONNECT to the backend's host and port, or add the host to NO_PROXY";
  if (codeOf(error) === "ECONNREFUSED")
    return "no server listens there: check host and port of BACKEND_URL (or HTTPS_PROXY), and that the server runs";
  if (codeOf(error) === "ERR_SSL_WRONG_VERSION_NUMBER")
    return "this port has no TLS: set BACKEND_URL to the https port, or to http:// with ALLOW_PLAIN_HTTP in a network that you trust";
  return "check BACKEND_URL, firewalls, HTTPS_PROXY and NO_PROXY";
}

function clockFinding(clock: Clock): Finding {
  const skew = Math.round(clock.skewS());
  const seconds = Math.abs(skew);
  if (seconds < WARN_SKEW_S) return { name: "clock", status: "ok", detail: `${seconds} s from the backend's` };
  const advice = "synchronise this machine's clock (NTP); requests are signed with the backend's time, but telemetry has this machine's";
  const status = seconds < FAIL_SKEW_S ? "warn" : "fail";
  return { name: "clock", status, detail: `${seconds} s ${skew > 0 ? "behind" : "ahead of"} the backend's`, advice };
}

/** Sends one signed heartbeat. `ifRefused`: advice for a key that is unknown or revoked. */
export async function checkKey(
  credential: Credential,
  path: string,
  backend: Pick<BackendApi, "heartbeat">,
  ifRefused: string,
): Promise<Finding[]> {
  const name = "key";
  try {
    const { keyAgeDays } = await backend.heartbeat(path, credential, {});
    return [{ name, status: "ok", detail: `accepted by the backend; ${keyAgeDays ?? "an unknown number of"} days old` }];
  } catch (error) {
    const isRefused = error instanceof BackendError && error.keyRefused;
    const advice = isRefused ? ifRefused : "see the backend checks above, and the backend's log";
    return [{ name, status: "fail", detail: messageOf(error), advice }];
  }
}
