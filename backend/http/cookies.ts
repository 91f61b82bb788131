// Cookies of browsers that log in. Invariant: each is HttpOnly, and bound to this host alone and to TLS; over plain http only on loopback,
// where there is no TLS, and under another name.
import type { FastifyReply, FastifyRequest } from "fastify";
import { isLoopback } from "../../agent/common/host-name.ts";

/** `Lax` comes along when another site leads the browser here, `Strict` does not. */
export interface Cookie {
  readonly name: string;
  readonly value: string;
  readonly sameSite: "Strict" | "Lax";
  /** 0: removes it. */
  readonly maxAgeS: number;
}

type Asked = Pick<FastifyRequest, "protocol" | "hostname" | "headers">;

export function setCookie(request: Asked, reply: FastifyReply, { name, value, sameSite, maxAgeS }: Cookie): void {
  const secure = isPlain(request) ? "" : "; Secure";
  const text = `${fullName(request, name)}=${value}; Path=/; Max-Age=${maxAgeS}; HttpOnly; SameSite=${sameSite}${secure}`;
  void reply.header("set-cookie", text);
}

export function cookieOf(request: Asked, name: string): string | undefined {
  const wanted = `${fullName(request, name)}=`;
  const pairs = (request.headers.cookie ?? "").split(";").map((pair) => pair.trim());
  return pairs.find((pair) => pair.startsWith(wanted))?.slice(wanted.length);
}

/** Where the browser sees this backend, without a path. Only loopback is reached over plain http: what ends TLS before us need not say so. */
export function originSeen(request: Asked & Pick<FastifyRequest, "host">): string | undefined {
  return URL.parse(`${isPlain(request) ? "http" : "https"}://${request.host}`)?.origin;
}

/** The prefix is a browser's own promise: from this very host, over TLS, for all paths. */
function fullName(request: Asked, name: string): string {
  return isPlain(request) ? name : `__Host-${name}`;
}

function isPlain({ protocol, hostname }: Asked): boolean {
  return protocol === "http" && isLoopback(hostname ?? "");
}
