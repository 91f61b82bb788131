// The console: a page of the backend's own that uses only its HTTP API. Invariants: nothing is loaded from other origins, text of a sender is
// never markup, and the address contains everything that is shown.
import "./state/locale.ts";
import "uplot/dist/uPlot.min.css";
import "./style/tokens.css";
import "./style/elements.css";
import "./style/parts.css";
import "./style/tables.css";
import "./style/frame.css";
import "./style/logs.css";
import "./style/traces.css";
import "./style/charts.css";
import "./style/plots.css";
import "./style/states.css";
import { effect } from "@preact/signals";
import { render } from "preact";
import { LoginDialog, LoginPage } from "./login.tsx";
import { Help, Navigation } from "./navigation.tsx";
import { Overview } from "./overview/overview-screen.tsx";
import { Problem } from "./parts/common.tsx";
import { Boundary, lazy } from "./parts/screens.tsx";
import {
  shardWarnings,
  loadingAttribute,
  isHelpOpen,
  isPaletteOpen,
  isViewsOpen,
  listenToKeys,
  go,
  route,
  guardEdits,
} from "./state/index.ts";
import { isSessionExpired } from "./state/expired-session.ts";
import { pageTitle } from "./state/screens.ts";
import { findSession, invitation, logInByLink, openInvitation, problem, user } from "./state/session.ts";

// This script and the overview are inside the page (hack/console.mjs), all other screens are one file: on a slow line, a round trip costs more
// than its size.
const screens = async () => await import("./all-screens.tsx");
const InvitationPage = lazy(async () => (await screens()).InvitationPage);
const Palette = lazy(async () => (await screens()).Palette);
const Screen = lazy(async () => (await screens()).Screen);
const Views = lazy(async () => (await screens()).Views);

function Console() {
  if (invitation.value !== undefined) return <InvitationPage token={invitation.value} key={invitation.value} />;
  if (user.value === undefined)
    return problem.value ? (
      <main class="center">
        <Problem message={problem.value} retry={() => void findSession()} />
      </main>
    ) : null;
  if (user.value === null) return <LoginPage />;
  return (
    <>
      <Navigation />
      <main id="main" tabIndex={-1} data-loading={loadingAttribute}>
        <Problem message={Object.values(shardWarnings.value)[0]} />
        <Boundary of={`${route.value.screen}/${route.value.id ?? ""}`}>
          {route.value.screen === "overview" ? <Overview /> : <Screen />}
        </Boundary>
      </main>
      {isHelpOpen.value && <Help />}
      {isPaletteOpen.value && <Palette />}
      {isViewsOpen.value && <Views onClose={() => (isViewsOpen.value = false)} />}
      {isSessionExpired.value && <LoginDialog />}
    </>
  );
}

const before = sessionStorage.getItem("atherops.at");
sessionStorage.removeItem("atherops.at");
if (before && !location.hash) go(before, { replace: true });
listenToKeys();
guardEdits();
// In a new tab at once; later if the link is pasted into the address of an open tab.
effect(() => {
  const { screen, id } = route.value;
  if (screen === "login" && id) void logInByLink(id);
  if (screen === "invitation" && id) openInvitation(id);
});
effect(() => {
  document.title = pageTitle(route.value);
  shardWarnings.value = {};
});
if (route.peek().screen !== "login") void findSession();
const app = document.querySelector("#app") as HTMLElement;
app.textContent = "";
render(<Console />, app);
// After the requests of the overview, because with HTTP/1.1 a browser sends six at a time; another screen has begun to load its code.
Screen.preload();
