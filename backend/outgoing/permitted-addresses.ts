// Resolves the host of a receiver and decides which addresses a request may be sent to: a tenant names the receiver, and this process
// runs inside the operator's network. Invariants: an address is refused unless it is global unicast or in a network that the operator
// lists; unknown hosts and forbidden addresses cause the same error, so that users cannot learn the names of the operator's network. Only
// the log distinguishes them.
import { type BlockList, isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { Resolver } from "node:dns/promises";
import { bareHost, networkList, networksContain } from "../../common/ip-networks.ts";
import { MAX_CHECKED_ADDRESSES, MAX_TRIED_ADDRESSES } from "./outgoing-limits.ts";

/** The networks in IANA's special-purpose registries that are not global, and multicast. */
const REFUSED_IPV4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  // Azure's own services for a machine, including metadata, at an address that looks public.
  "168.63.129.16/32",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
];
/** The range that is assigned as global unicast; exceptions are protocol assignments with Teredo, documentation, and 6to4. */
const GLOBAL_IPV6 = ["2000::/3"];
const REFUSED_IPV6 = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"];
/** An IPv6-only network reaches every IPv4 address through it (RFC 6052); the last 32 bits are the IPv4 address. */
const NAT64 = ["64:ff9b::/96"];

export class PermittedAddresses {
  readonly #allowed: BlockList;
  readonly #ownAddresses: () => readonly string[];

  /**
   * `allowed`: addresses and CIDRs from the operator. `own`: this machine's addresses, including public ones, which may be behind its
   * firewall.
   */
  constructor(allowed: readonly string[] = [], own: () => readonly string[] = listOwnAddresses) {
    this.#allowed = networkList(allowed);
    this.#ownAddresses = own;
  }

  permits(address: string): boolean {
    const family = isIP(address);
    // A zone (`fe80::1%eth0`) refers to one of our interfaces.
    if (family === 0 || address.includes("%")) return false;
    if (networksContain(this.#allowed, address)) return true;
    const inner = networksContain(nat64, address) ? embeddedIpv4(address) : undefined;
    if (inner !== undefined) return this.permits(inner);
    const isGlobal = family === 4 || networksContain(globalIpv6, address);
    return isGlobal && !networksContain(refused, address) && !networksContain(networkList(this.#ownAddresses()), address);
  }
}

const refused = networkList([...REFUSED_IPV4, ...REFUSED_IPV6]);
const globalIpv6 = networkList(GLOBAL_IPV6);
const nat64 = networkList(NAT64);

/** The URL parser has already normalised the IPv6 address: hexadecimal groups, zeros omitted. */
function embeddedIpv4(address: string): string {
  const normalised = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [high = "0", low = "0"] = normalised.replace(/::$/, ":0:0").replace("::", ":0:").split(":").slice(-2);
  const bits = [high, low].map((group) => Number.parseInt(group || "0", 16));
  return bits.flatMap((group) => [group >> 8, group & 0xff]).join(".");
}

function listOwnAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((of) => (of ?? []).map(({ address }) => address.replace(/%.*/, "")));
}

export interface HostAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

/** Returns all addresses of a name. Not `getaddrinfo`: a slow name server of a tenant would block a thread that SQL statements need. */
export type Lookup = (hostname: string, signal: AbortSignal) => Promise<readonly string[]>;

/** The host does not exist, or has no permitted address. */
export class HostRefused extends Error {
  override readonly name = "HostRefused";
  /** The addresses of the host, only for the operator's log. */
  readonly found: readonly string[];
  constructor(found: readonly string[]) {
    super("the host does not exist, or has no address that requests may be sent to");
    this.found = found;
  }
}

const NO_SUCH_NAME = new Set(["ENOTFOUND", "ENODATA"]);

/** Throws HostRefused, and the resolver's error if it cannot respond. */
export async function resolvePermitted(
  hostname: string,
  { permitted, lookup = queryDns, signal }: { permitted: PermittedAddresses; lookup?: Lookup | undefined; signal: AbortSignal },
): Promise<readonly [HostAddress, ...HostAddress[]]> {
  const host = bareHost(hostname);
  const found = isIP(host) === 0 ? (await lookup(host, signal)).slice(0, MAX_CHECKED_ADDRESSES) : [host];
  const [first, ...rest] = found
    .filter((address) => permitted.permits(address))
    .slice(0, MAX_TRIED_ADDRESSES)
    .map((address): HostAddress => ({ address, family: isIP(address) === 6 ? 6 : 4 }));
  if (!first) throw new HostRefused(found);
  return [first, ...rest];
}

/**
 * Queries the servers of resolv.conf. The hosts file and search domains belong to the operator and are not used. `localhost` is not queried
 * (RFC 6761, 6.3).
 */
export async function queryDns(hostname: string, signal: AbortSignal, servers?: readonly string[]): Promise<string[]> {
  if (hostname === "localhost") return ["127.0.0.1", "::1"];
  const resolver = new Resolver({ timeout: 2000, tries: 2 });
  if (servers) resolver.setServers(servers);
  const cancel = () => resolver.cancel();
  signal.addEventListener("abort", cancel, { once: true });
  try {
    const answers = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
    const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    const failed = answers.find((answer) => answer.status === "rejected" && !NO_SUCH_NAME.has(answer.reason?.code));
    if (found.length === 0 && failed?.status === "rejected") throw failed.reason;
    return found;
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}
