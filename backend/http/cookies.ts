// Sets and reads the cookies of browsers that log in. Invariant: each cookie is HttpOnly and restricted to this host and to TLS. The
// exception is loopback without TLS, where cookies have another name and are sent over plain HTTP.
import type { FastifyReply, FastifyRequest } from "fastify";
import { isLoopback } from "../../common/ip-networks.ts";

/** Browsers send a `Lax` cookie when a user follows a link from another site, and a `Strict` cookie never from another site. */
export interface Cookie {
  readonly name: string;
  readonly value: string;
  readonly sameSite: "Strict" | "Lax";
  /** 0 removes the cookie. */
  readonly maxAgeS: number;
}

type CookieRequest = Pick<FastifyRequest, "protocol" | "hostname" | "headers">;

export function setCookie(request: CookieRequest, reply: FastifyReply, { name, value, sameSite, maxAgeS }: Cookie): void {
  const secure = isPlain(request) ? "" : "; Secure";
  const text = `${fullName(request, name)}=${value}; Path=/; Max-Age=${maxAgeS}; HttpOnly; SameSite=${sameSite}${secure}`;
  void reply.header("set-cookie", text);
}

export function readCookie(request: CookieRequest, name: string): string | undefined {
  const prefix = `${fullName(request, name)}=`;
  const pairs = (request.headers.cookie ?? "").split(";").map((pair) => pair.trim());
  return pairs.find((pair) => pair.startsWith(prefix))?.slice(prefix.length);
}

/** The origin of this backend in the browser. Except on loopback it is https, because a proxy may terminate TLS without reporting it. */
export function publicOrigin(request: CookieRequest & Pick<FastifyRequest, "host">): string | undefined {
  return URL.parse(`${isPlain(request) ? "http" : "https"}://${request.host}`)?.origin;
}

/** Browsers accept the prefix `__Host-` only for cookies of this exact host, over TLS, for all paths. */
function fullName(request: CookieRequest, name: string): string {
  return isPlain(request) ? name : `__Host-${name}`;
}

function isPlain({ protocol, hostname }: CookieRequest): boolean {
  return protocol === "http" && isLoopback(hostname ?? "");
}
