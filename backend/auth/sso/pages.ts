// The HTML pages of single sign-on: one on which a user confirms the login of a command line (`atherops login --sso`), and one that explains
// why a login failed. Any site can lead a logged-in browser through single sign-on, so the first page asks for a confirmation.
// Invariant: the pages have no scripts and load nothing; other sites cannot frame them; texts of others are escaped. The form posts to this
// server, which redirects to the loopback port on the page. A checkbox and a button at two positions prevent clickjacking by double click.
import { createHash } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { ApiError } from "../../errors.ts";
import { sendError, type ErrorBody } from "../../http/error-response.ts";
import { MAX_CHOICES_LENGTH } from "../../http/http-limits.ts";
import type { CliReturn } from "./attempt.ts";

const STYLE = `:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 34rem; margin: 10vh auto; padding: 0 1rem; overflow-wrap: anywhere; }
.code { font: 1.75rem ui-monospace, monospace; letter-spacing: 0.05em; }
button { font: inherit; padding: 0.5rem 1rem; }`;
const STYLE_HASH = createHash("sha256").update(STYLE).digest("base64");

/** The headers of a page. `formAction`: sources of Content-Security-Policy. */
export function pageHeaders(formAction: string): Record<string, string> {
  return {
    "content-security-policy": `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; form-action ${formAction}; base-uri 'none'; frame-ancestors 'none'`,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
  };
}

/** `title` and `content` are HTML. */
function renderPage(title: string, content: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} – AtherOps</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${title}</h1>
${content}
</main>
</body>
</html>
`;
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}

export const GRANT_PATH = "/api/auth/oidc/cli";

export interface CliConfirmation {
  readonly cli: CliReturn;
  /** A hidden field of the form. */
  readonly token: string;
  readonly user: { readonly email: string; readonly role: string };
  readonly orgName: string;
}

export function renderConfirmation({ cli, token, user, orgName }: CliConfirmation): string {
  const content = `<p>A command line that ran <code>atherops login --sso</code> and waits at 127.0.0.1:${cli.port} requests a session as
<strong><bdi>${escapeHtml(user.email)}</bdi></strong> (${user.role} of <bdi>${escapeHtml(orgName)}</bdi>).</p>
<p>Compare this code with the one in your terminal:</p>
<p class="code">${confirmationCode(cli)}</p>
<form method="post" action="${GRANT_PATH}">
<input type="hidden" name="token" value="${escapeHtml(token)}">
<p><label><input type="checkbox" required> The codes are the same</label></p>
<button>Log it in</button>
</form>
<p>If the codes differ, or you did not run this command, an attacker may be trying to log in as you: close this window.</p>`;
  return renderPage("Log in a command line?", content);
}

/** Browsers apply `form-action` to redirects of a form as well. */
export function formAction({ port }: CliReturn): string {
  return `'self' http://127.0.0.1:${port}`;
}

/** The command line prints the same code: the first six bytes of its challenge, too many to find a collision during a login. */
function confirmationCode({ challenge }: CliReturn): string {
  const digits = Buffer.from(challenge, "base64url").toString("hex").slice(0, 12).toUpperCase();
  return (digits.match(/.{4}/g) ?? []).join("-");
}

/** End of messages for programs; the page has a link instead. */
export const START_AGAIN = ": start again at /api/auth/oidc/start";

/** The error handler of routes that browsers open: a page if the browser prefers HTML, otherwise JSON with the same status. */
export function sendLoginError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  return prefersHtml(request.headers.accept) ? sendError(error, request, reply, renderErrorPage) : sendError(error, request, reply);
}

/** Browsers name text/html; clients that accept anything do not. */
export function prefersHtml(accept = ""): boolean {
  const weights = new Map(
    accept
      .slice(0, MAX_CHOICES_LENGTH)
      .split(",")
      .map((range) => {
        const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
        const weight = Number(parameters.find((parameter) => parameter.startsWith("q="))?.slice(2) ?? 1);
        return [type, weight];
      }),
  );
  return (weights.get("text/html") ?? 0) > (weights.get("application/json") ?? 0);
}

function renderErrorPage({ message }: ApiError): ErrorBody {
  const text = message.endsWith(START_AGAIN) ? message.slice(0, -START_AGAIN.length) : message;
  const isAboutParameter = /^\w+: /.test(text);
  const sentence = isAboutParameter ? text : `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
  const content = `<p>${escapeHtml(sentence)}.</p>
<p><a href="/">Back to sign-in</a>. If a command line is waiting, run <code>atherops login --sso</code> again.</p>`;
  // Set here because the request may be refused before its handler sets them.
  const headers = { ...pageHeaders("'none'"), "cache-control": "no-store", "referrer-policy": "no-referrer" };
  return { type: "text/html; charset=utf-8", text: renderPage("You are not signed in", content), headers };
}
