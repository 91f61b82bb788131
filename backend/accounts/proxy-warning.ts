// Says when logins come through a proxy that is not trusted: all clients behind it are then one address, so that six wrong guesses of
// anybody make everybody wait who logs in to that account. Invariant: one line for each such proxy, of the first few.
import type { FastifyRequest } from "fastify";
import type { Log } from "../observability/log.ts";

const MAX_PROXIES = 5;

type Requested = Pick<FastifyRequest, "ip" | "headers"> & { raw: { socket: { remoteAddress?: string | undefined } } };

/** To be called with every login. */
export function createProxyWarning(log: Pick<Log, "warn">): (request: Requested) => void {
  const told = new Set<string>();
  return ({ ip, headers, raw }) => {
    const proxy = raw.socket.remoteAddress;
    if (headers["x-forwarded-for"] === undefined || proxy === undefined || ip !== proxy) return;
    if (told.has(proxy) || told.size >= MAX_PROXIES) return;
    told.add(proxy);
    log.warn(
      { proxy },
      "a login came with X-Forwarded-For from an address that TRUSTED_PROXIES does not name, so the header is not believed: if this is your ingress or load balancer, all its clients count as one address and can make each other wait at login; set TRUSTED_PROXIES (in the chart: trustedProxies) to its address or range",
    );
  };
}
