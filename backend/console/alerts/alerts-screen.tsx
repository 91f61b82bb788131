// Alerts: rules, firing alerts, and who is notified. Each is its own view, which the address names.
import { Bar, Tabs, Checkbox, EditableList, NameLink, Problem, type Column, counted } from "../parts/index.ts";
import { Channels } from "../notification/channels.tsx";
import { Deliveries } from "../notification/deliveries.tsx";
import { Firing } from "../notification/firing.tsx";
import { InhibitRules } from "../notification/inhibition.tsx";
import { TimeIntervals } from "../notification/time-intervals.tsx";
import { Routes } from "../notification/notification-routes.tsx";
import { Silences } from "../notification/silences.tsx";
import { address, go, route, choose, useLoaded, ago, call, mayWrite } from "../state/index.ts";
import { AlertPage } from "./alert-page.tsx";
import { RuleEditor } from "./editor.tsx";
import { RuleHistory } from "./history.tsx";
import { useRemoval } from "./receiver.tsx";
import { newRule, RULES, type Rule, type RuleStatus, type RuleWithStatus } from "./console-rule.ts";

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

const REFRESH_MS = 10_000;
const CONCURRENT_REQUESTS = 6;
const MAX_STATUS_REQUESTS = 200;

function Rules() {
  const loaded = useLoaded("rules", async (signal) => await readRules(signal), { refreshMs: REFRESH_MS });
  const rules = loaded.value.value ?? [];
  const removal = useRemoval(rules);
  const count = (state: string): number => rules.filter(({ status }) => status?.state === state).length;
  // Each objective has four, which users do not edit.
  const generated = rules.filter(({ slo_id, status }) => slo_id !== undefined && status?.state === "inactive");
  const areAllShown = route.value.query.get("all") !== null;
  const shown = areAllShown ? rules : rules.filter((rule) => !generated.includes(rule));
  return (
    <EditableList
      noun="rule"
      list={{}}
      loaded={loaded}
      rows={shown}
      all={rules}
      title="Alert rules"
      columns={COLUMNS}
      status={
        <>
          {counted(rules.length, "rule")}, <strong class={count("firing") > 0 ? "level is-error" : ""}>{count("firing")} firing</strong>,{" "}
          {count("pending")} pending
        </>
      }
      extras={
        generated.length > 0 && (
          <Checkbox
            label={`Show ${counted(generated.length, "inactive rule")} of objectives`}
            checked={areAllShown}
            onChange={() => choose({ all: areAllShown ? undefined : "1" })}
          />
        )
      }
      empty={rules.length === 0 && <EmptyState />}
      headingOf={({ name }) => name}
      removal={removal}
      isFormReadable
      form={(rule, saved) => (
        <>
          {rule?.slo_id === undefined ? (
            <RuleEditor rule={rule ?? newRule(route.value.query)} onSaved={(stored) => saved({ ...stored, status: rule?.status })} />
          ) : (
            <p>
              Generated for a <a href={address("slos", {}, rule.slo_id)}>service level objective</a>: change the objective, not this rule.
            </p>
          )}
          {rule?.id && <RuleHistory id={rule.id} />}
        </>
      )}
    />
  );
}

function EmptyState() {
  if (!mayWrite.value) return <p>No rules. An administrator can create one.</p>;
  return (
    <>
      <p>No rules. Create one: while you type a condition on metrics, a preview shows its values of the last day.</p>
      <p>
        For a rule that counts log records, search for them in <a href={address("logs")}>Logs</a> and click “Create alert rule”.
      </p>
    </>
  );
}

const COLUMNS: readonly Column<RuleWithStatus>[] = [
  { head: "state", cell: (rule) => <State rule={rule} /> },
  {
    head: "rule",
    kind: "name",
    cell: ({ id, name, status }) => (
      <>
        <NameLink href={address("alerts", { rule: id })} text={name} />
        <Problem message={status?.error ?? undefined} />
      </>
    ),
  },
  { head: "severity", cell: ({ severity }) => severity },
  { head: "for", cell: (rule) => rule.for ?? "0s" },
  { head: "last evaluation", cell: ({ status }) => (status?.last_eval ? ago(status.last_eval, Date.now()) : "–") },
];

const COLOUR: Record<string, string> = { firing: "is-error", pending: "is-warn", inactive: "is-other" };

function State({ rule }: { rule: RuleWithStatus }) {
  if (rule.enabled === false) return <span class="quiet">disabled</span>;
  const { state, active_alerts: active } = rule.status ?? { state: "unknown", active_alerts: 0 };
  return (
    <span class={`level ${COLOUR[state] ?? "is-other"}`}>
      {state}
      {active > 1 ? ` (${active})` : ""}
    </span>
  );
}

/** Firing first, then by name. */
async function readRules(signal: AbortSignal): Promise<RuleWithStatus[]> {
  const rules = await call<Rule[]>(RULES, { signal });
  const statuses = new Map<string, RuleStatus>();
  const waiting = rules.filter(({ enabled }) => enabled !== false).slice(0, MAX_STATUS_REQUESTS);
  const worker = async (): Promise<void> => {
    for (let rule = waiting.shift(); rule; rule = waiting.shift()) {
      const status = await call<RuleStatus>(`${RULES}/${rule.id}/status`, { signal }).catch(() => undefined);
      if (status && rule.id) statuses.set(rule.id, status);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_REQUESTS }, worker));
  const rank: Record<string, number> = { firing: 0, pending: 1 };
  return rules
    .map((rule) => ({ ...rule, status: statuses.get(rule.id ?? "") }))
    .sort((a, b) => (rank[a.status?.state ?? ""] ?? 2) - (rank[b.status?.state ?? ""] ?? 2) || a.name.localeCompare(b.name));
}
