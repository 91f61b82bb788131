// The page of an invitation link, `#/invitation/TOKEN`: the invited person chooses a password and is logged in. A fragment is not sent to
// any server; the token is removed from the address before anything else happens (state/session.ts).
import type { ApiResponses } from "../client/api.ts";
import { Problem, Button, Field, Brand, visible } from "./parts/index.ts";
import { call, useLoaded, submitBy, formReader, useSending, acceptInvitation, invitation } from "./state/index.ts";

export function InvitationPage({ token }: { token: string }) {
  const loaded = useLoaded(token, async (signal) => {
    return await call<ApiResponses["POST /api/auth/invitation"]>("/api/auth/invitation", { method: "POST", body: { token }, signal });
  });
  const { send, isBusy, error } = useSending(async (form: HTMLFormElement) => await acceptInvitation(token, formReader(form)("password")));
  const shown = loaded.value.value;
  return (
    <main class="center">
      <section class="card login">
        <Brand />
        <Problem message={loaded.error.value} />
        {shown && (
          <form class="stack" data-unguarded onSubmit={submitBy(send)}>
            <p>
              You are invited to join{" "}
              <strong>
                <bdi>{visible(shown.org)}</bdi>
              </strong>{" "}
              with the role {shown.role}. Choose a password of at least 8 characters.
            </p>
            <Field label="E-mail" name="email" type="email" autoComplete="username" readOnly defaultValue={shown.email} />
            <Field label="Password" name="password" type="password" autoComplete="new-password" required minLength={8} maxLength={256} />
            <Problem message={error} />
            <Button type="submit" class="primary" disabled={isBusy} text="Create account" />
          </form>
        )}
        <Button class="plain" onClick={() => (invitation.value = undefined)} text="Go to login" />
      </section>
    </main>
  );
}
