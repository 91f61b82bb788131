// The page of an invitation link, `#/invitation/TOKEN`: the invited person chooses a password and is logged in. A fragment is not sent to
// any server; the token is removed from the address before anything else happens (state/session.ts).
import type { ApiResponses } from "../client/api.ts";
import { Problem } from "./parts/common.tsx";
import { visible } from "./parts/text.ts";
import { call } from "./state/api.ts";
import { useLoaded } from "./state/loaded.ts";
import { submitBy, typedIn, useSending } from "./state/sending.ts";
import { acceptInvitation, invitation } from "./state/session.ts";

export function InvitationPage({ token }: { token: string }) {
  const found = useLoaded(token, async (signal) => {
    return await call<ApiResponses["POST /api/auth/invitation"]>("/api/auth/invitation", { method: "POST", body: { token }, signal });
  });
  const { send, isBusy, error } = useSending(async (form: HTMLFormElement) => await acceptInvitation(token, typedIn(form)("password")));
  const shown = found.value.value;
  return (
    <main class="center">
      <section class="card login">
        <h1>AtherOps</h1>
        <Problem words={found.error.value} />
        {shown && (
          <form class="stack" onSubmit={submitBy(send)}>
            <p>
              You are invited to <bdi>{visible(shown.org)}</bdi> with the role {shown.role}. Choose a password of at least 8 characters.
            </p>
            <label>
              E-mail
              <input name="email" type="email" autoComplete="username" readOnly defaultValue={shown.email} />
            </label>
            <label>
              Password
              <input name="password" type="password" autoComplete="new-password" required minLength={8} maxLength={256} />
            </label>
            <Problem words={error} />
            <button type="submit" class="primary" disabled={isBusy}>
              Accept
            </button>
          </form>
        )}
        <button type="button" class="plain" onClick={() => (invitation.value = undefined)}>
          To the login
        </button>
      </section>
    </main>
  );
}
