// Alerts: rules, firing alerts, and who is notified. Each is its own view, which the address names.
import { Bar } from "../parts/layout.tsx";
import { Tabs } from "../parts/controls.tsx";
import { Channels } from "../notification/channels.tsx";
import { Deliveries } from "../notification/deliveries.tsx";
import { Firing } from "../notification/firing.tsx";
import { InhibitRules } from "../notification/inhibition.tsx";
import { TimeIntervals } from "../notification/time-intervals.tsx";
import { Routes } from "../notification/notification-routes.tsx";
import { Silences } from "../notification/silences.tsx";
import { address, go, route } from "../state/route.ts";
import { AlertPage } from "./alert-page.tsx";
import { Rules } from "./rule-list.tsx";

const VIEWS = [
  ["rules", "Rules", Rules],
  ["firing", "Firing", Firing],
  ["silences", "Silences", Silences],
  ["routes", "Routes", Routes],
  ["inhibition", "Inhibition", InhibitRules],
  ["intervals", "Time intervals", TimeIntervals],
  ["channels", "Channels", Channels],
  ["deliveries", "Deliveries", Deliveries],
] as const;

export function Alerts() {
  const { id } = route.value;
  if (id !== undefined) return <AlertPage ruleId={id} key={route.value.query.getAll("label").join()} />;
  const [chosen, , View] = VIEWS.find(([name]) => name === route.value.query.get("view")) ?? VIEWS[0];
  return (
    <section class="screen alerts" aria-labelledby="title">
      <Bar title="Alerts">
        <Tabs
          label="Views"
          tabs={VIEWS}
          chosen={chosen}
          onChoose={(name) => go(address("alerts", { view: name === "rules" ? undefined : name }))}
        />
      </Bar>
      <View />
    </section>
  );
}
