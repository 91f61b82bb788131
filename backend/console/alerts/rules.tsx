// The rules with their live state, and one rule with its editor and history.
import { Removal } from "../parts/removal.tsx";
import { Side } from "../parts/side.tsx";
import { useLoaded } from "../state/loaded.ts";
import { address, route } from "../state/route.ts";
import { ago } from "../state/time.ts";
import { RuleEditor } from "./editor.tsx";
import { RuleHistory } from "./history.tsx";
import { newRule, RULES, type Rule, type RuleStatus } from "./rule.ts";
import { NameLink, Problem, Status, Table } from "../parts/common.tsx";
import { counted, visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { mayWrite } from "../state/session.ts";

const EVERY_MS = 10_000;
const ASKED_AT_ONCE = 6;
const MOST_ASKED = 200;

type WithStatus = Rule & { readonly status: RuleStatus | undefined };

export function Rules() {
  const found = useLoaded("rules", async (signal) => await rulesWithStatus(signal), { everyMs: EVERY_MS });
  const rules = found.value.value ?? [];
  const id = route.value.query.get("rule");
  const chosen = id === "new" ? newRule(route.value.query) : rules.find((rule) => rule.id === id);
  const count = (state: string): number => rules.filter(({ status }) => status?.state === state).length;
  return (
    <>
      <div class="bar">
        <p role="status">
          {counted(rules.length, "rule")}, <strong class={count("firing") > 0 ? "level is-error" : ""}>{count("firing")} firing</strong>,{" "}
          {count("pending")} pending
        </p>
        {mayWrite.value && (
          <a class="button primary" href={address("alerts", { rule: "new" })}>
            Add a rule
          </a>
        )}
      </div>
      <div class={`split ${chosen ? "with-side" : ""}`}>
        <div>
          <Status of={found} empty={rules.length === 0 && <Nothing />}>
            {rules.length > 0 && <RuleTable rules={rules} chosen={id} />}
          </Status>
        </div>
        {chosen && <RuleSide rule={chosen} key={chosen.id} onChanged={found.reload} />}
      </div>
    </>
  );
}

function Nothing() {
  return (
    <>
      <p>There are no rules yet.</p>
      <p>{mayWrite.value ? "Add one: a condition on metrics, tried on the last day while you type." : "An administrator can add one."}</p>
      {mayWrite.value && (
        <p>
          For a rule that counts log records, search for them in <a href={address("logs")}>Logs</a> and follow “alert on this”.
        </p>
      )}
    </>
  );
}

function RuleTable({ rules, chosen }: { rules: readonly WithStatus[]; chosen: string | null }) {
  return (
    <Table title="Alert rules" heads={["state", "rule", "severity", "for", "last evaluation"]}>
      {rules.map((rule) => (
        <tr key={rule.id} class={rule.id === chosen ? "is-chosen" : ""}>
          <td>
            <State rule={rule} />
          </td>
          <th scope="row">
            <NameLink href={address("alerts", { rule: rule.id })} text={rule.name} />
            {rule.status?.error && <Problem words={rule.status.error} />}
          </th>
          <td>{rule.severity}</td>
          <td>{rule.for ?? "0s"}</td>
          <td>{rule.status?.last_eval ? ago(rule.status.last_eval, Date.now()) : "–"}</td>
        </tr>
      ))}
    </Table>
  );
}

const COLOUR: Record<string, string> = { firing: "is-error", pending: "is-warn", inactive: "is-other" };

function State({ rule }: { rule: WithStatus }) {
  if (rule.enabled === false) return <span class="quiet">disabled</span>;
  const { state, active_alerts: active } = rule.status ?? { state: "unknown", active_alerts: 0 };
  return (
    <span class={`level ${COLOUR[state] ?? "is-other"}`}>
      {state}
      {active > 1 ? ` (${active})` : ""}
    </span>
  );
}

function RuleSide({ rule, onChanged }: { rule: Rule; onChanged: () => void }) {
  return (
    <Side label={rule.id ? "Rule" : "New rule"} title={rule.id ? rule.name : "New rule"} closed={address("alerts")}>
      <RuleEditor rule={rule} onSaved={onChanged} />
      {rule.id && <RuleHistory id={rule.id} />}
      {rule.id && mayWrite.value && (
        <Removal
          label="Remove this rule"
          title="Remove this rule?"
          path={`${RULES}/${rule.id}`}
          onRemoved={() => (onChanged(), address("alerts"))}
        >
          <bdi>{visible(rule.name)}</bdi> is evaluated no more. This cannot be undone.
        </Removal>
      )}
    </Side>
  );
}

/** Firing first, then by name. */
async function rulesWithStatus(signal: AbortSignal): Promise<WithStatus[]> {
  const rules = await call<Rule[]>(RULES, { signal });
  const statuses = new Map<string, RuleStatus>();
  const waiting = rules.filter(({ enabled }) => enabled !== false).slice(0, MOST_ASKED);
  const worker = async (): Promise<void> => {
    for (let rule = waiting.shift(); rule; rule = waiting.shift()) {
      const status = await call<RuleStatus>(`${RULES}/${rule.id}/status`, { signal }).catch(() => undefined);
      if (status && rule.id) statuses.set(rule.id, status);
    }
  };
  await Promise.all(Array.from({ length: ASKED_AT_ONCE }, worker));
  const rank: Record<string, number> = { firing: 0, pending: 1 };
  return rules
    .map((rule) => ({ ...rule, status: statuses.get(rule.id ?? "") }))
    .sort((a, b) => (rank[a.status?.state ?? ""] ?? 2) - (rank[b.status?.state ?? ""] ?? 2) || a.name.localeCompare(b.name));
}
