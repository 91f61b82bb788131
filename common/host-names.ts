// Names of hosts in URLs and settings (IPv6 in brackets), which of them NO_PROXY excludes, as curl reads it, and IP networks (CIDRs).
// Invariant: names are compared as written and never resolved.
import { BlockList, isIP } from "node:net";

/**
 * True when `origin` is reached without a proxy. `noProxy`: entries apart by comma or blank, each `*`, a name (its subdomains too), an
 * address, or a network as CIDR; with `:port` it means that port only.
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
  const family = isIP(host);
  if (family !== 0) return isWithin(host, family, entry);
  const name = bare(entry.replace(/^\*?\./, ""));
  return name !== "" && (host.endsWith(`.${name}`) || (host === name && !entry.startsWith("*")));
}

function isWithin(address: string, family: number, entry: string): boolean {
  const [network = "", bits, ...more] = entry.split("/");
  const of = bare(network);
  const width = family === 4 ? 32 : 128;
  const prefix = bits === undefined ? width : Number(bits);
  if (isIP(of) !== family || more.length > 0 || !/^\d*$/.test(bits ?? "") || prefix > width) return false;
  const type = family === 4 ? "ipv4" : "ipv6";
  const list = new BlockList();
  list.addSubnet(of, prefix, type);
  return list.check(address, type);
}

/** Of `[v6]:port` and `name:port`; the colons of a bare IPv6 address are its own. */
function withoutPort(entry: string): [name: string, port: string | undefined] {
  const match = /^(\[[^\]]*\]|[^:]*):(\d+)$/.exec(entry);
  return match?.[1] === undefined ? [entry, undefined] : [match[1], match[2]];
}

/** Without the brackets of an IPv6 address and the dot that ends a full name. */
function bare(host: string): string {
  return bareHost(host.toLowerCase()).replace(/(.)\.$/, "$1");
}

/** True for `localhost`, 127.0.0.0/8 and ::1, with or without brackets. */
export function isLoopback(hostname: string): boolean {
  const host = bareHost(hostname).toLowerCase();
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

/** Without the brackets of IPv6. */
export function bareHost(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, "$1");
}

// IP networks as addresses or CIDRs, such as 10.0.0.0/8 or 2001:db8::/32. Invariant: an address that cannot be read is in no network.

/** True for an IP address, with or without a prefix length. */
export function isNetwork(text: string): boolean {
  const [address = "", bits, ...rest] = text.split("/");
  const maxBits = isIP(address) === 6 ? 128 : 32;
  return isIP(address) !== 0 && rest.length === 0 && (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= maxBits));
}

/** Texts that are no networks are left out. */
export function networkList(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    if (!isNetwork(network)) continue;
    const [address = "", bits] = network.split("/");
    const family = isIP(address);
    list.addSubnet(address, bits === undefined ? (family === 4 ? 32 : 128) : Number(bits), familyName(family));
  }
  return list;
}

/** IPv4 networks also contain the addresses that IPv6 sockets report for them (`::ffff:10.0.0.1`). */
export function networksContain(list: BlockList, address: string): boolean {
  const family = isIP(address);
  return family !== 0 && list.check(address, familyName(family));
}

/** `::ffff:127.0.0.1`, as a socket of both families reports it, as `127.0.0.1`. */
export function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, "");
}

function familyName(family: number): "ipv4" | "ipv6" {
  return family === 6 ? "ipv6" : "ipv4";
}
