// The console: a page of the backend's own that uses only its HTTP API. Invariants: nothing is loaded from other origins, text of a sender is
// never markup, and the address contains everything that is shown.
import "./state/locale.ts";
import "uplot/dist/uPlot.min.css";
import "./style/base.css";
import "./style/page.css";
import "./style/telemetry.css";
import "./style/explorer.css";
import "./style/dashboards.css";
import { effect } from "@preact/signals";
import { render } from "preact";
import { LoginDialog, LoginPage } from "./login.tsx";
import { Help, Navigation } from "./navigation.tsx";
import { Problem } from "./parts/common.tsx";
import { Boundary, lazy } from "./parts/screens.tsx";
import { shardWarnings } from "./state/api.ts";
import { isSessionExpired } from "./state/expired-session.ts";
import { loadingAttribute } from "./state/loaded.ts";
import { isHelpOpen, isPaletteOpen, isViewsOpen, listenToKeys } from "./state/keys.ts";
import { address, go, route } from "./state/route.ts";
import { pageTitle } from "./state/screens.ts";
import { guardUnload } from "./state/unsaved.ts";
import { findSession, invitation, logInByLink, openInvitation, problem, user } from "./state/session.ts";

const InvitationPage = lazy(async () => (await import("./invitation.tsx")).InvitationPage);
const Palette = lazy(async () => (await import("./palette.tsx")).Palette);
const Trace = lazy(async () => (await import("./traces/trace.tsx")).Trace);
const Views = lazy(async () => (await import("./parts/views.tsx")).Views);

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
          <Screen />
        </Boundary>
      </main>
      {isHelpOpen.value && <Help />}
      {isPaletteOpen.value && <Palette />}
      {isViewsOpen.value && <Views onClose={() => (isViewsOpen.value = false)} />}
      {isSessionExpired.value && <LoginDialog />}
    </>
  );
}

/** Screens by the first part of their addresses. */
const SCREENS = new Map([
  ["overview", lazy(async () => (await import("./overview/overview-screen.tsx")).Overview)],
  ["slos", lazy(async () => (await import("./slo/slo-screen.tsx")).SloScreen)],
  ["changes", lazy(async () => (await import("./changes/changes-screen.tsx")).ChangesScreen)],
  ["services", lazy(async () => (await import("./services/services-screen.tsx")).Services)],
  ["fleet", lazy(async () => (await import("./fleet/fleet-screen.tsx")).Fleet)],
  ["entity", lazy(async () => (await import("./entities/entities-screen.tsx")).EntityScreen)],
  ["dashboards", lazy(async () => (await import("./dashboards/dashboards-screen.tsx")).Dashboards)],
  ["add", lazy(async () => (await import("./fleet/add.tsx")).Connect)],
  ["logs", lazy(async () => (await import("./logs/logs-screen.tsx")).Logs)],
  ["traces", lazy(async () => (await import("./traces/traces-screen.tsx")).Traces)],
  ["metrics", lazy(async () => (await import("./metrics/metrics-screen.tsx")).Metrics)],
  ["alerts", lazy(async () => (await import("./alerts/alerts-screen.tsx")).Alerts)],
  ["settings", lazy(async () => (await import("./administration/administration-screen.tsx")).Administration)],
]);

function Screen() {
  const { screen, id } = route.value;
  if (screen === "traces" && id) return <Trace id={id} key={id} />;
  const Shown = SCREENS.get(screen);
  if (Shown) return <Shown key={screen} />;
  return (
    <p class="empty">
      Page not found. <a href={address("overview")}>Go to the overview</a>
    </p>
  );
}

const before = sessionStorage.getItem("atherops.at");
sessionStorage.removeItem("atherops.at");
if (before && !location.hash) go(before, { replace: true });
listenToKeys();
guardUnload();
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
// Loads the code of the screen while the backend checks the session. If that fails, the screen shows the error when it is drawn.
SCREENS.get(route.peek().screen)?.preload();
const app = document.querySelector("#app") as HTMLElement;
app.textContent = "";
render(<Console />, app);
