// Login: a page at first; a dialog above the current screen when a session has ended.
import { Dialog, Problem } from "./parts/common.tsx";
import { submitBy, typedIn, useSending } from "./state/sending.ts";
import { logIn, logOut, refusedLink, user, useSettings } from "./state/session.ts";

export function LoginPage() {
  return (
    <main class="center">
      <section class="card login">
        <h1>AtherOps</h1>
        <Problem words={refusedLink.value} />
        <LoginForm />
      </section>
    </main>
  );
}

export function LoginDialog() {
  return (
    <Dialog title="The session has ended">
      <p>Log in again to continue. Your input is still there.</p>
      <LoginForm email={user.value?.email} />
      <button type="button" class="plain" onClick={() => void logOut()}>
        Log in as another user
      </button>
    </Dialog>
  );
}

function LoginForm({ email }: { email?: string | undefined }) {
  const { send, isBusy, error } = useSending(async (form: HTMLFormElement) => {
    const typed = typedIn(form);
    await logIn(email ?? typed("email"), typed("password"));
  });
  return (
    <form class="stack" onSubmit={submitBy(send)}>
      <label>
        E-mail
        <input name="email" type="email" autoComplete="username" required defaultValue={email} readOnly={email !== undefined} />
      </label>
      <label>
        Password
        <input name="password" type="password" autoComplete="current-password" required />
      </label>
      <Problem words={error} />
      <button type="submit" class="primary" disabled={isBusy}>
        {isBusy ? "Logging in …" : "Log in"}
      </button>
      <SingleSignOn />
    </form>
  );
}

function SingleSignOn() {
  const found = useSettings();
  return found.value.value?.hasSingleSignOn ? (
    // The fragment is not seen by servers: it waits here until the provider has led back.
    <a class="button" href="/api/auth/oidc/start?return_to=/" onClick={() => sessionStorage.setItem("atherops.at", location.hash)}>
      Log in with your company's account
    </a>
  ) : null;
}
