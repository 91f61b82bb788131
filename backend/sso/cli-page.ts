// The page on which a person lets a command line in, at the end of `atherops login --sso`. Any page can lead a logged-in browser through single
// sign-on; this one stands between that and the session. Invariant: it has no script; nothing of it comes from elsewhere; no other page frames
// it; its form leads here, and from here to the loopback's port that is told on it; what others named is text.
import { createHash } from "node:crypto";
import type { CliReturn } from "./attempt.ts";

export const GRANT_PATH = "/api/auth/oidc/cli";

export interface Asking {
  readonly cli: CliReturn;
  /** Comes back with the form. */
  readonly token: string;
  readonly user: { readonly email: string; readonly role: string };
  readonly orgName: string;
}

const STYLE = `:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 34rem; margin: 10vh auto; padding: 0 1rem; overflow-wrap: anywhere; }
.code { font: 1.75rem ui-monospace, monospace; letter-spacing: 0.05em; }
button { font: inherit; padding: 0.5rem 1rem; }`;
const STYLE_HASH = createHash("sha256").update(STYLE).digest("base64");

/** Of its answer. Browsers hold what a form is redirected to against `form-action` as well. */
export function pageHeaders({ port }: CliReturn): Record<string, string> {
  return {
    "content-security-policy": `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; form-action 'self' http://127.0.0.1:${port}; base-uri 'none'; frame-ancestors 'none'`,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
  };
}

export function pageOf({ cli, token, user, orgName }: Asking): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in a command line? – AtherOps</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>Log in a command line?</h1>
<p>A command line that ran <code>atherops login --sso</code>, and waits at 127.0.0.1:${cli.port}, asks for a session as
<strong><bdi>${escaped(user.email)}</bdi></strong> (${user.role} of <bdi>${escaped(orgName)}</bdi>).</p>
<p>Compare this code with the one in your terminal:</p>
<p class="code">${comparedCode(cli)}</p>
<form method="post" action="${GRANT_PATH}">
<input type="hidden" name="token" value="${escaped(token)}">
<button>The codes are the same: log it in</button>
</form>
<p>Is it another code, or did you run no such command? Then somebody else wants to be you: close this window, and nothing has happened.</p>
</main>
</body>
</html>
`;
}

/** What the client prints as well: the first six bytes of its challenge. Too many to find another challenge that begins so within a login. */
function comparedCode({ challenge }: CliReturn): string {
  const digits = Buffer.from(challenge, "base64url").toString("hex").slice(0, 12).toUpperCase();
  return (digits.match(/.{4}/g) ?? []).join("-");
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}
