// Login: a page at first; a dialog above the current screen when a session has ended.
import { Dialog, Problem, Button, Field, Brand } from "./parts/index.ts";
import { submitBy, formReader, useSending, logIn, logOut, refusedLink, user, useSettings } from "./state/index.ts";

export function LoginPage() {
  return (
    <main class="center">
      <section class="card login">
        <Brand />
        <Problem message={refusedLink.value} />
        <LoginForm />
      </section>
    </main>
  );
}

export function LoginDialog() {
  return (
    <Dialog title="Your session has expired">
      <p>Log in again to continue. Your input is kept.</p>
      <LoginForm email={user.value?.email} />
      <Button class="plain" onClick={() => void logOut()} text="Log in as another user" />
    </Dialog>
  );
}

function LoginForm({ email }: { email?: string | undefined }) {
  const { send, isBusy, error } = useSending(async (form: HTMLFormElement) => {
    const typed = formReader(form);
    await logIn(email ?? typed("email"), typed("password"));
  });
  return (
    <form class="stack" data-unguarded onSubmit={submitBy(send)}>
      <Field
        label="E-mail"
        name="email"
        type="email"
        autoComplete="username"
        required
        defaultValue={email}
        readOnly={email !== undefined}
      />
      <Field
        label="Password"
        name="password"
        type="password"
        autoComplete="current-password"
        required
        {...(email !== undefined && { "data-first": "" })}
      />
      <Problem message={error} />
      <Button type="submit" class="primary" disabled={isBusy} text={isBusy ? "Logging in …" : "Log in"} />
      <SingleSignOn />
    </form>
  );
}

function SingleSignOn() {
  const loaded = useSettings();
  return loaded.value.value?.hasSingleSignOn ? (
    // The fragment is not seen by servers: it waits here until the provider has led back.
    <a class="button" href="/api/auth/oidc/start?return_to=/" onClick={() => sessionStorage.setItem("atherops.at", location.hash)}>
      Log in with single sign-on
    </a>
  ) : null;
}
