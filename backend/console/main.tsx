// The console: a page of the backend's own, over its HTTP API alone. Invariants: nothing is loaded from elsewhere, no text that came from a
// sender is ever markup, and the address says what is shown.
import "./style.css";
import { effect } from "@preact/signals";
import { render } from "preact";
import { Administration } from "./administration/screen.tsx";
import { Alerts } from "./alerts/screen.tsx";
import { AddCluster } from "./fleet/add.tsx";
import { Fleet } from "./fleet/screen.tsx";
import { Logs } from "./logs/screen.tsx";
import { Metrics } from "./metrics/screen.tsx";
import { LoginDialog, LoginPage } from "./login.tsx";
import { Help, Navigation } from "./navigation.tsx";
import { hasEnded } from "./state/ended.ts";
import { isHelpOpen, listenToKeys } from "./state/keys.ts";
import { go, route } from "./state/route.ts";
import { Trace } from "./traces/trace.tsx";
import { Traces } from "./traces/screen.tsx";
import { Problem } from "./parts/common.tsx";
import { findSession, logInByLink, problem, user } from "./state/session.ts";

function Console() {
  if (user.value === undefined)
    return problem.value ? (
      <main class="center">
        <Problem words={problem.value} retry={() => void findSession()} />
      </main>
    ) : null;
  if (user.value === null) return <LoginPage />;
  return (
    <>
      <Navigation />
      <main id="main" tabIndex={-1}>
        <Screen />
      </main>
      {isHelpOpen.value && <Help />}
      {hasEnded.value && <LoginDialog />}
    </>
  );
}

function Screen() {
  const { screen, id } = route.value;
  switch (screen) {
    case "fleet":
      return <Fleet />;
    case "add":
      return <AddCluster />;
    case "logs":
      return <Logs />;
    case "traces":
      return id ? <Trace id={id} key={id} /> : <Traces />;
    case "metrics":
      return <Metrics />;
    case "alerts":
      return <Alerts />;
    case "settings":
      return <Administration />;
    default:
      return (
        <p class="empty">
          There is no such screen. <a href="#/fleet">To the fleet</a>
        </p>
      );
  }
}

const before = sessionStorage.getItem("atherops.at");
sessionStorage.removeItem("atherops.at");
if (before && !location.hash) go(before, { replace: true });
listenToKeys();
// At once in a new tab, later where the link is pasted into the address of one that is open.
effect(() => {
  const { screen, id } = route.value;
  if (screen === "login" && id) void logInByLink(id);
});
if (route.peek().screen !== "login") void findSession();
render(<Console />, document.querySelector("#app") as HTMLElement);
