// Evaluates NO_PROXY as curl does: which origins are reached without a proxy. Invariant: names are compared as written and never resolved.
import { isIP } from "node:net";
import { bareHost, networkList, networksContain } from "./ip-networks.ts";

/**
 * True if `origin` is reached without a proxy. `noProxy` has entries separated by comma or space: `*`, a name (with its subdomains), an
 * address, or a network as CIDR. An entry with `:port` applies to that port only.
 */
export function isExempt(origin: string, noProxy: string): boolean {
  const { hostname, port, protocol } = new URL(origin);
  const host = bare(hostname);
  const portOf = port || (protocol === "https:" ? "443" : "80");
  return noProxy
    .split(/[\s,]+/)
    .filter(Boolean)
    .some((entry) => {
      const [name, onlyPort] = withoutPort(entry);
      return (onlyPort === undefined || onlyPort === portOf) && matches(host, name);
    });
}

function matches(host: string, entry: string): boolean {
  if (entry === "*") return true;
  if (isIP(host) !== 0) return networksContain(networkList([entry.replaceAll(/[[\]]/g, "")]), host);
  const name = bare(entry.replace(/^\*?\./, ""));
  return name !== "" && (host.endsWith(`.${name}`) || (host === name && !entry.startsWith("*")));
}

/** Splits `[v6]:port` and `name:port`; a bare IPv6 address has no port. */
function withoutPort(entry: string): [name: string, port: string | undefined] {
  const match = /^(\[[^\]]*\]|[^:]*):(\d+)$/.exec(entry);
  return match?.[1] === undefined ? [entry, undefined] : [match[1], match[2]];
}

/** Removes the brackets of an IPv6 address and the trailing dot of a fully qualified name. */
function bare(host: string): string {
  return bareHost(host.toLowerCase()).replace(/(.)\.$/, "$1");
}
