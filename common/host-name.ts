// Hosts as URLs and settings name them: an IPv6 address is in brackets there. Invariant: no name is looked up, so a host is on this
// machine only where its name alone says it.
import { isIP } from "node:net";

/** True for `localhost`, 127.0.0.0/8 and ::1, with or without brackets. */
export function isLoopback(hostname: string): boolean {
  const host = bareHost(hostname).toLowerCase();
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

/** Without the brackets of IPv6. */
export function bareHost(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, "$1");
}
