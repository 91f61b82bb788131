// The page on which a person lets a command line in, at the end of `atherops login --sso`. Any page can lead a logged-in browser through single
// sign-on; this one stands between that and the session. Invariant: that of page.ts, and its form leads here, and from here to the loopback's
// port that is told on it. Two places of it are clicked, so that a double click which another page drew here opens nothing.
import type { CliReturn } from "./attempt.ts";
import { escaped, htmlOf } from "./page.ts";

export const GRANT_PATH = "/api/auth/oidc/cli";

export interface Asking {
  readonly cli: CliReturn;
  /** Comes back with the form. */
  readonly token: string;
  readonly user: { readonly email: string; readonly role: string };
  readonly orgName: string;
}

export function pageOf({ cli, token, user, orgName }: Asking): string {
  const content = `<p>A command line that ran <code>atherops login --sso</code>, and waits at 127.0.0.1:${cli.port}, asks for a session as
<strong><bdi>${escaped(user.email)}</bdi></strong> (${user.role} of <bdi>${escaped(orgName)}</bdi>).</p>
<p>Compare this code with the one in your terminal:</p>
<p class="code">${comparedCode(cli)}</p>
<form method="post" action="${GRANT_PATH}">
<input type="hidden" name="token" value="${escaped(token)}">
<p><label><input type="checkbox" required> The codes are the same</label></p>
<button>Log it in</button>
</form>
<p>Is it another code, or did you run no such command? Then somebody else wants to be you: close this window, and nothing has happened.</p>`;
  return htmlOf("Log in a command line?", content);
}

/** Browsers hold what a form is redirected to against `form-action` as well. */
export function formAction({ port }: CliReturn): string {
  return `'self' http://127.0.0.1:${port}`;
}

/** What the client prints as well: the first six bytes of its challenge. Too many to find another challenge that begins so within a login. */
function comparedCode({ challenge }: CliReturn): string {
  const digits = Buffer.from(challenge, "base64url").toString("hex").slice(0, 12).toUpperCase();
  return (digits.match(/.{4}/g) ?? []).join("-");
}
