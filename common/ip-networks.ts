// Matches IP addresses with networks such as 10.0.0.0/8 or 2001:db8::/32, detects loopback host names, formats `host:port`, and splits URLs
// with several hosts. Invariant: an address that cannot be parsed is in no network.
import { BlockList, isIP } from "node:net";

/** True for `localhost`, 127.0.0.0/8 and ::1, with or without brackets, and as a dual-stack socket reports them. */
export function isLoopback(hostname: string): boolean {
  const host = plainAddress(bareHost(hostname).toLowerCase());
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

/** Removes the brackets of an IPv6 address. */
export function bareHost(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, "$1");
}

/** `host:port`, with brackets around an IPv6 address. */
export function joinHostPort(host: string, port: number | string): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** True for an IP address, with or without a prefix length. */
export function isNetwork(text: string): boolean {
  const [address = "", bits, ...rest] = text.split("/");
  const maxBits = isIP(address) === 6 ? 128 : 32;
  return isIP(address) !== 0 && rest.length === 0 && (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= maxBits));
}

/** Ignores entries that are not networks. */
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

/** Converts `::ffff:127.0.0.1`, as a dual-stack socket reports it, to `127.0.0.1`. */
export function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, "");
}

function familyName(family: number): "ipv4" | "ipv6" {
  return family === 6 ? "ipv6" : "ipv4";
}

/** One URL per host of a URL in libpq's form: `postgres://user@one:5432,other:5432/database` is a primary and its standbys. */
export function hostUrls(url: string): string[] {
  const start = url.indexOf("//") + 2;
  const length = url.slice(start).search(/[/?]/);
  const end = length < 0 ? url.length : start + length;
  const authority = url.slice(start, end);
  const hostsAt = authority.lastIndexOf("@") + 1;
  const [before, after] = [url.slice(0, start) + authority.slice(0, hostsAt), url.slice(end)];
  return authority
    .slice(hostsAt)
    .split(",")
    .map((host) => before + host + after);
}
