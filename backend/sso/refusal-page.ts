// Why a browser that signs in gets no session: a page in words for a person, and for all others the JSON of every error. Invariant: status,
// log lines and headers are those of the JSON.
import type { FastifyReply, FastifyRequest } from "fastify";
import type { ApiError } from "../errors.ts";
import { answerError, type ErrorForm } from "../http/error-answer.ts";
import { escaped, htmlOf, pageHeaders } from "./page.ts";

/** What a message ends with that tells a client where to go on. A person has a link. */
export const BEGIN_AGAIN = ": begin again at /api/auth/oidc/start";

/** Of a route that browsers are led to. */
export function answerRefusal(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  return prefersHtml(request.headers.accept) ? answerError(error, request, reply, formOf) : answerError(error, request, reply);
}

/** Browsers name it; who takes whatever comes does not. */
export function prefersHtml(accept = ""): boolean {
  const weights = new Map(
    accept.split(",").map((range) => {
      const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
      const weight = Number(parameters.find((one) => one.startsWith("q="))?.slice(2) ?? 1);
      return [type, weight];
    }),
  );
  return (weights.get("text/html") ?? 0) > (weights.get("application/json") ?? 0);
}

function formOf({ message }: ApiError): ErrorForm {
  const words = message.endsWith(BEGIN_AGAIN) ? message.slice(0, -BEGIN_AGAIN.length) : message;
  const isAboutParameter = /^\w+: /.test(words);
  const sentence = isAboutParameter ? words : `${words.charAt(0).toUpperCase()}${words.slice(1)}`;
  const content = `<p>${escaped(sentence)}.</p>
<p><a href="/">Back to sign-in</a>. If a command line waits for this, run <code>atherops login --sso</code> again.</p>`;
  // Also where the request was refused before its route could say so.
  const headers = { ...pageHeaders("'none'"), "cache-control": "no-store", "referrer-policy": "no-referrer" };
  return { type: "text/html; charset=utf-8", text: htmlOf("You are not signed in", content), headers };
}
