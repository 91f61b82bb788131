// Trusted issuers of the organisation: their tokens enrol clusters and hosts, send or read without a secret of this backend. A rule is added
// to an issuer or removed from it by replacing the issuer.
import { Card, Problem, Button, Field, SavingForm, Select, TextArea, visible } from "../parts/index.ts";
import { useSignal } from "@preact/signals";
import type { ApiResponses } from "../../client/api.ts";
import { call, formReader, useSending, mayWrite } from "../state/index.ts";
import { LIMITS_FIELD, limitsOf, limitsText } from "./label-limits.tsx";
import { ResourceList, timeColumn } from "./resource-list.tsx";

type Issuer = ApiResponses["GET /api/issuers"][number];

interface Rule {
  readonly claims: Readonly<Record<string, string>>;
  readonly permit: string;
  readonly name?: string;
  readonly name_claim?: string;
  readonly signals?: readonly string[];
  readonly label_limits?: Readonly<Record<string, readonly string[]>> | null;
}

const PERMISSIONS = ["enrol_cluster", "enrol_host", "send", "read"] as const;
const PATH = "/api/issuers";

export function Issuers() {
  const changes = useSignal(0);
  const onChanged = () => changes.value++;
  return (
    <>
      <ResourceList<Issuer>
        title="Trusted issuers"
        path={PATH}
        changes={changes}
        columns={[
          { head: "name", cell: (row) => visible(row.name) },
          { head: "issuer", cell: (row) => visible(row.issuer) },
          { head: "audience of its tokens", cell: (row) => visible(row.audience) },
          { head: "rules", cell: (row) => <Rules of={row} onChanged={onChanged} /> },
          { head: "keys", kind: "number", cell: (row) => String(row.keys) },
          timeColumn("keys fetched", (row) => row.keys_fetched_at, "given"),
        ]}
        removal={(row) => `Tokens of ${row.name} are refused within 5 seconds. Enrolled clusters and hosts keep their keys.`}
      />
      {mayWrite.value && <AddIssuer onAdded={onChanged} />}
    </>
  );
}

function Rules({ of: issuer, onChanged }: { of: Issuer; onChanged: () => void }) {
  const rules = issuer.rules as unknown as readonly Rule[];
  const isAdding = useSignal(false);
  const replace = async (replaced: readonly Rule[]): Promise<void> => {
    const { name, issuer: url, audience, jwks } = issuer;
    await call(`${PATH}/${issuer.id}`, { method: "PUT", body: { name, issuer: url, audience, jwks, rules: replaced } });
    isAdding.value = false;
    onChanged();
  };
  const { send, isBusy, error } = useSending(replace);
  return (
    <>
      <ul class="plain-list">
        {rules.map((rule, at) => (
          <li key={at}>
            {ruleText(rule)}{" "}
            {mayWrite.value && rules.length > 1 && (
              <Button
                class="small"
                text="Remove rule"
                aria-label={`Remove rule ${at + 1} of ${visible(issuer.name)}`}
                disabled={isBusy}
                onClick={() => void send(rules.filter((other) => other !== rule))}
              />
            )}
          </li>
        ))}
      </ul>
      {mayWrite.value && !isAdding.value && (
        <Button class="small" text="Add rule" aria-label={`Add rule to ${visible(issuer.name)}`} onClick={() => (isAdding.value = true)} />
      )}
      {isAdding.value && (
        <SavingForm
          layout="row"
          label="Save rule"
          save={async (form) => await replace([...rules, readRule(formReader(form))])}
          onCancel={() => (isAdding.value = false)}
        >
          <RuleFields />
        </SavingForm>
      )}
      <Problem message={error} />
    </>
  );
}

function ruleText({ claims, permit, name, name_claim, signals, label_limits }: Rule): string {
  const conditions = Object.entries(claims).map(([claim, pattern]) => `${claim} = ${pattern}`);
  const more = [
    ...(name === undefined ? [] : [`as ${name}`]),
    ...(name_claim === undefined ? [] : [`named by ${name_claim}`]),
    ...(signals ?? []),
    ...(label_limits ? [`limited to ${limitsText(label_limits)}`] : []),
  ];
  return visible(`${permit}${more.length > 0 ? ` (${more.join(", ")})` : ""} if ${conditions.join(" and ")}`);
}

function RuleFields() {
  return (
    <>
      <Field label="Claim" name="claim" required placeholder="sub" />
      <Field label="Value of the claim, * for any characters" name="pattern" required />
      <Select label="Permits to" name="permit" of={PERMISSIONS} />
      <Field label="Name of the cluster, host or node (optional)" name="as" />
      <Field label={`${LIMITS_FIELD.label}, to read`} name="limits" placeholder={LIMITS_FIELD.placeholder} />
    </>
  );
}

/** Throws if the limits are wrong. */
function readRule(typed: (name: string) => string): Rule {
  const name = typed("as").trim();
  return {
    claims: { [typed("claim").trim()]: typed("pattern") },
    permit: typed("permit"),
    ...(name !== "" && { name }),
    ...limitsOf(typed("limits")),
  };
}

function AddIssuer({ onAdded }: { onAdded: () => void }) {
  const save = async (form: HTMLFormElement): Promise<void> => {
    const typed = formReader(form);
    const [audience, keys] = [typed("audience").trim(), typed("jwks").trim()];
    const body = {
      name: typed("name"),
      issuer: typed("issuer").trim(),
      ...(audience !== "" && { audience }),
      ...(keys !== "" && { jwks: readKeys(keys) }),
      rules: [readRule(typed)],
    };
    await call(PATH, { method: "POST", body });
    form.reset();
    onAdded();
  };
  return (
    <Card title="Trust an issuer">
      <SavingForm layout="row" label="Trust issuer" save={save}>
        <Field label="Name" name="name" required />
        <Field label="Issuer (the claim iss)" name="issuer" required />
        <Field label="Audience (optional)" name="audience" placeholder="atherops:<id of your organisation>" />
        <TextArea label="Public keys as JSON (optional, by default they are fetched)" name="jwks" rows={3} />
        <RuleFields />
      </SavingForm>
    </Card>
  );
}

function readKeys(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('The public keys must be JSON such as {"keys": […]}.');
  }
}
