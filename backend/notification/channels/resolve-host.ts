// The addresses of a receiver's host that a notification may be sent to. Invariant: what cannot be permitted and what does not exist are
// refused with the same error, so that users cannot learn the names of the operator's network; only the log distinguishes them.
import { Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import { bareHost } from "../../../common/host-names.ts";
import { MAX_CHECKED_ADDRESSES, MAX_TRIED_ADDRESSES } from "../limits.ts";
import type { PermittedAddresses } from "./permitted-addresses.ts";

export interface HostAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

/** Of a name, all addresses. `getaddrinfo` would hold a thread of the pool that statements run on, for as long as a tenant's server likes. */
export type Lookup = (hostname: string, signal: AbortSignal) => Promise<readonly string[]>;

/** The name leads nowhere, or nowhere that is permitted. */
export class HostRefused extends Error {
  override readonly name = "HostRefused";
  /** Where a name led, for the operator's log alone. */
  readonly found: readonly string[];
  constructor(found: readonly string[]) {
    super("the host has no address that notifications may be sent to");
    this.found = found;
  }
}

const NO_SUCH_NAME = new Set(["ENOTFOUND", "ENODATA"]);

/** Throws HostRefused, and the error of a resolver that cannot answer. */
export async function permittedAddressesOf(
  hostname: string,
  { permitted, lookup = lookUp, signal }: { permitted: PermittedAddresses; lookup?: Lookup | undefined; signal: AbortSignal },
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

/** Asks the servers of resolv.conf. Files of hosts and search domains are the operator's, and not asked. */
export async function lookUp(hostname: string, signal: AbortSignal, servers?: readonly string[]): Promise<string[]> {
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
