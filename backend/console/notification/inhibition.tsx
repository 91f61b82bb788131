// Inhibition rules: while an alert that matches the source fires, alerts that match the target are not sent.
import type { ApiResponses } from "../../client/api.ts";
import { Field, EditableList, EditLink, SavingForm, type Column, counted } from "../parts/index.ts";
import { call, saveResource, useLoaded, address, formReader } from "../state/index.ts";
import { formatMatchers, parseMatchers, splitNames } from "./matcher.ts";
import { Matchers, MatchersField } from "./matchers.tsx";

const PATH = "/alerting/inhibit-rules";
type InhibitRule = ApiResponses["GET /alerting/inhibit-rules"][number];

const COLUMNS: readonly Column<InhibitRule>[] = [
  {
    head: "rule",
    kind: "name",
    order: ({ name }) => name,
    cell: ({ id, name }) => <EditLink href={address("alerts", { view: "inhibition", inhibition_rule: id })} text={name} />,
  },
  { head: "while this fires", cell: ({ source_matchers: of }) => <Matchers of={of} /> },
  { head: "these are not sent", cell: ({ target_matchers: of }) => <Matchers of={of} /> },
  { head: "with the same", cell: ({ equal }) => equal.join(", ") || "–" },
];

export function InhibitRules() {
  const loaded = useLoaded("inhibition", async (signal) => await call<InhibitRule[]>(PATH, { signal }));
  const rules = loaded.value.value ?? [];
  return (
    <EditableList
      noun="inhibition rule"
      list={{ view: "inhibition" }}
      loaded={loaded}
      rows={rules}
      title="Inhibition rules"
      columns={COLUMNS}
      status={counted(rules.length, "inhibition rule")}
      empty={rules.length === 0 && "No inhibition rules. One can mute the alerts of all services of a cluster while the cluster is down."}
      headingOf={({ name }) => name}
      removal={({ id }) => ({ path: `${PATH}/${id}`, text: "The alerts that it inhibits are sent again. This cannot be undone." })}
      form={(rule, saved) => <RuleForm rule={rule} onSaved={saved} />}
    />
  );
}

function RuleForm({ rule, onSaved }: { rule: InhibitRule | undefined; onSaved: (rule: InhibitRule) => string }) {
  const save = async (form: HTMLFormElement): Promise<string> => {
    const text = formReader(form);
    const matchers = { source_matchers: parseMatchers(text("source")), target_matchers: parseMatchers(text("target")) };
    return onSaved(await saveResource(PATH, rule?.id, { name: text("name"), ...matchers, equal: splitNames(text("equal")) }));
  };
  return (
    <SavingForm label={rule ? "Save" : "Create"} saved="Saved." save={save} takesFocus={!rule}>
      <Field label="Name" name="name" required maxLength={200} defaultValue={rule?.name} />
      <MatchersField name="source" label="While an alert fires that matches" initial={formatMatchers(rule?.source_matchers ?? [])} />
      <MatchersField name="target" label="do not send alerts that match" initial={formatMatchers(rule?.target_matchers ?? [])} />
      <Field
        label="if these labels have the same value in both (names, with commas)"
        name="equal"
        placeholder="k8s_cluster_name"
        defaultValue={rule?.equal.join(", ")}
      />
    </SavingForm>
  );
}
