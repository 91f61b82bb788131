// Is the backend there: its name, the way to it, its certificate, its clock, and does it take our key. Called by diagnose.ts, host.ts and
// cluster.ts.
import { lookup } from "node:dns/promises";
import type { Clock } from "../clock.ts";
import type { Credential } from "../credentials/store.ts";
import { BackendError, type BackendApi } from "../enrolment/backend-api.ts";
import type { Secrets, Settings } from "../settings.ts";
import type { Upstream } from "../upstream.ts";
import { type Finding, messageOf } from "./check.ts";

/** Beyond it the backend refuses signatures that are not corrected; telemetry carries the wrong time either way. */
const WARN_SKEW_S = 30;

export async function checkName({ backendUrl }: Pick<Settings, "backendUrl">, secrets: Pick<Secrets, "httpsProxy">): Promise<Finding[]> {
  const name = "DNS";
  const url = new URL(backendUrl);
  if (url.protocol === "https:" && secrets.httpsProxy !== undefined) {
    return [{ name, verdict: "skipped", detail: "the outgoing proxy (HTTPS_PROXY) resolves the backend's name" }];
  }
  const host = url.hostname.replace(/^\[|\]$/g, "");
  try {
    const addresses = await lookup(host, { all: true });
    return [{ name, verdict: "ok", detail: `${host} is ${addresses.map(({ address }) => address).join(", ")}` }];
  } catch (error) {
    const advice = "check BACKEND_URL, and the resolver of this machine or pod (/etc/resolv.conf)";
    return [{ name, verdict: "fail", detail: `${host} cannot be resolved: ${messageOf(error)}`, advice }];
  }
}

export async function checkBackend({ backendUrl }: Pick<Settings, "backendUrl">, upstream: Upstream, clock: Clock): Promise<Finding[]> {
  const sentAtMs = Date.now();
  const secure = backendUrl.startsWith("https:") ? "TLS" : "plain http";
  try {
    const answer = await upstream.request({ method: "GET", path: "/openapi.json", signal: AbortSignal.timeout(10_000) });
    clock.observe(answer.headers["date"], sentAtMs, Date.now());
    const reached: Finding = { name: "backend", verdict: "ok", detail: `answers over ${secure} in ${Date.now() - sentAtMs} ms` };
    return [answer.status < 500 ? reached : unwell(answer.status), clockFinding(clock)];
  } catch (error) {
    const message = messageOf(error);
    return [{ name: "backend", verdict: "fail", detail: message, advice: adviceFor(message) }];
  }
}

function unwell(status: number): Finding {
  const advice = "look at the backend's /readyz; telemetry waits in this agent's disk queue";
  return { name: "backend", verdict: "fail", detail: `answers ${status}`, advice };
}

function adviceFor(message: string): string {
  if (/CERT|SELF_SIGNED|UNABLE_TO|ALTNAME|certificate/i.test(message)) {
    return "set BACKEND_CA_FILE to the authority that signed the backend's certificate, and use the name that is in it";
  }
  if (message.includes("ECONNREFUSED")) return "nothing listens there: check host and port of BACKEND_URL";
  return "check BACKEND_URL, firewalls on the way, and HTTPS_PROXY and NO_PROXY";
}

function clockFinding(clock: Clock): Finding {
  const skew = Math.round(clock.skewS());
  if (Math.abs(skew) < WARN_SKEW_S) return { name: "clock", verdict: "ok", detail: `${Math.abs(skew)} s from the backend's` };
  const advice = "set this machine's clock (NTP); requests are signed with the backend's time meanwhile, but telemetry carries this one";
  return { name: "clock", verdict: "warn", detail: `${Math.abs(skew)} s ${skew > 0 ? "behind" : "ahead of"} the backend's`, advice };
}

/** One heartbeat, signed. */
export async function checkKey(credential: Credential, path: string, backend: Pick<BackendApi, "heartbeat">): Promise<Finding[]> {
  const name = "key";
  try {
    const { keyAgeDays } = await backend.heartbeat(path, credential, {});
    return [{ name, verdict: "ok", detail: `the backend takes it; it is ${keyAgeDays ?? "an unknown number of"} days old` }];
  } catch (error) {
    const refused = error instanceof BackendError && error.keyRefused;
    const advice = refused ? "give a new INSTALL_TOKEN and restart the agent: it enrols again" : "see the checks of the backend above";
    return [{ name, verdict: "fail", detail: messageOf(error), advice }];
  }
}
