// All screens but the overview, in one file of the bundle: with HTTP/1.1, a browser asks for six files at a time, so on a slow line each part that is loaded
// by itself costs more than its size. Only the editor of PromQL, which is as large as everything else, is loaded by its field.
import type { FunctionComponent } from "preact";
import { Administration } from "./administration/administration-screen.tsx";
import { Alerts } from "./alerts/alerts-screen.tsx";
import { ChangesScreen } from "./changes/changes-screen.tsx";
import { Dashboards } from "./dashboards/dashboards-screen.tsx";
import { EntityScreen, KubernetesScreen } from "./entities/entities-screen.tsx";
import { Connect } from "./fleet/add.tsx";
import { Fleet } from "./fleet/fleet-screen.tsx";
import { Logs } from "./logs/logs-screen.tsx";
import { Metrics } from "./metrics/metrics-screen.tsx";
import { Gallery } from "./parts/gallery.tsx";
import { Services } from "./services/services-screen.tsx";
import { SloScreen } from "./slo/slo-screen.tsx";
import { address, route } from "./state/route.ts";
import { Trace } from "./traces/trace.tsx";
import { Traces } from "./traces/traces-screen.tsx";

export { InvitationPage } from "./invitation.tsx";
export { Palette } from "./palette.tsx";
export { Views } from "./parts/views.tsx";

const SCREENS = new Map<string, FunctionComponent>([
  ["changes", ChangesScreen],
  ["services", Services],
  ["kubernetes", KubernetesScreen],
  ["fleet", Fleet],
  ["entity", EntityScreen],
  ["dashboards", Dashboards],
  ["add", Connect],
  ["logs", Logs],
  ["traces", Traces],
  ["metrics", Metrics],
  ["alerts", Alerts],
  ["slos", SloScreen],
  ["settings", Administration],
  ["parts", Gallery],
]);

export function Screen() {
  const { screen, id } = route.value;
  if (screen === "traces" && id) return <Trace id={id} key={id} />;
  const Shown = SCREENS.get(screen);
  if (Shown) return <Shown key={screen} />;
  return (
    <section class="screen">
      <p class="empty">
        Page not found. <a href={address("overview")}>Go to the overview</a>
      </p>
    </section>
  );
}
