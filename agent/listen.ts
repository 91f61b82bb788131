// Lets a server of the agent listen at the address of a setting.
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { joinHostPort } from "../common/ip-networks.ts";
import type { ListenAddress } from "./settings.ts";

/** The message names the setting, and says what to do. */
export class ListenError extends Error {
  override readonly name = "ListenError";
}

/** Resolves to the port once the server listens; otherwise throws ListenError. */
export async function listenAt(server: Server, { host, port }: ListenAddress, setting: string): Promise<number> {
  // Without a host: all IPv6 and IPv4 addresses of the machine.
  server.listen({ port, ...(host !== "" && { host }) });
  try {
    await once(server, "listening");
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const why = code === "EADDRINUSE" ? "the port is in use: stop the other agent, or set another port" : message;
    throw new ListenError(`${setting}: cannot listen on ${joinHostPort(host, port)}: ${why}`, { cause });
  }
  return (server.address() as AddressInfo).port;
}
