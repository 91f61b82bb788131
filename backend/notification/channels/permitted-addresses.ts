// Which addresses a notification may be sent to. A tenant names the receiver, and this process runs inside the operator's network.
// Invariant: an address is refused unless it is global unicast, or in a network that the operator lists; what cannot be read is refused.
import { type BlockList, isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { networkList, networksContain } from "../../../common/host-names.ts";

/** Of IANA's special-purpose registries what is not global, and multicast. */
const REFUSED_IPV4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  // Azure's own services for a machine, metadata too, at an address that looks public.
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
/** All of IPv6 that is assigned as global unicast, and what of it is not: protocol assignments with Teredo, documentation, 6to4. */
const GLOBAL_IPV6 = ["2000::/3"];
const REFUSED_IPV6 = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"];
/** Through it a network of IPv6 alone reaches every IPv4 address (RFC 6052); the last 32 bits say which. */
const NAT64 = ["64:ff9b::/96"];

export class PermittedAddresses {
  readonly #allowed: BlockList;
  readonly #own: () => readonly string[];

  /** `allowed`: addresses and CIDRs of the operator. `own`: this machine's addresses, public ones too, behind its firewall. */
  constructor(allowed: readonly string[] = [], own: () => readonly string[] = ownAddresses) {
    this.#allowed = networkList(allowed);
    this.#own = own;
  }

  permits(address: string): boolean {
    const family = isIP(address);
    // A zone (`fe80::1%eth0`) names one of our interfaces.
    if (family === 0 || address.includes("%")) return false;
    if (networksContain(this.#allowed, address)) return true;
    const inner = networksContain(nat64, address) ? lastAsIpv4(address) : undefined;
    if (inner !== undefined) return this.permits(inner);
    const isGlobal = family === 4 || networksContain(globalIpv6, address);
    return isGlobal && !networksContain(refused, address) && !networksContain(networkList(this.#own()), address);
  }
}

const refused = networkList([...REFUSED_IPV4, ...REFUSED_IPV6]);
const globalIpv6 = networkList(GLOBAL_IPV6);
const nat64 = networkList(NAT64);

/** The URL parser writes an IPv6 address in one way: hexadecimal groups, zeros left out. */
function lastAsIpv4(address: string): string {
  const written = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [high = "0", low = "0"] = written.replace(/::$/, ":0:0").replace("::", ":0:").split(":").slice(-2);
  const bits = [high, low].map((group) => Number.parseInt(group || "0", 16));
  return bits.flatMap((group) => [group >> 8, group & 0xff]).join(".");
}

function ownAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((of) => (of ?? []).map(({ address }) => address.replace(/%.*/, "")));
}
