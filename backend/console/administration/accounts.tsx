// Manages the organisation's users and their roles, invitations, and the user's own password; for operators, also organisations.
import { Card, Problem, Field, SavingForm, Select } from "../parts/index.ts";
import { useSignal } from "@preact/signals";
import type { ApiResponses } from "../../client/api.ts";
import { call, formReader, useSending, isOperator, mayWrite, user } from "../state/index.ts";
import { LIMITS_FIELD, LimitsCell, limitsOf, limitsText } from "./label-limits.tsx";
import { timeColumn, ResourceList } from "./resource-list.tsx";

type User = ApiResponses["GET /api/users"][number];
type Invitation = ApiResponses["GET /api/invitations"][number];

const roles = (): User["role"][] => ["viewer", "admin", ...(isOperator.value ? (["operator"] as const) : [])];

export function Users() {
  return (
    <>
      <UserList />
      {mayWrite.value && <Invitations />}
      <OwnPassword />
    </>
  );
}

function UserList() {
  const changes = useSignal(0);
  return (
    <ResourceList<User>
      title="Users"
      path="/api/users"
      changes={changes}
      idOf={(row) => row.user_id}
      nameOf={(row) => row.email}
      columns={[
        { head: "e-mail", cell: (row) => row.email },
        { head: "role", cell: (row) => <RoleChoice of={row} onChanged={() => changes.value++} /> },
        {
          head: "limits",
          cell: (row) => (
            <LimitsCell
              limits={row.label_limits}
              name={row.email}
              path={mayWrite.value && row.role === "viewer" ? `/api/users/${row.user_id}/label-limits` : undefined}
              onChanged={() => changes.value++}
            />
          ),
        },
        timeColumn("since", (row) => row.created_at),
      ]}
      removal={(row) => (row.email === user.value?.email ? undefined : `${row.email} can no longer log in; sessions end within 5 seconds.`)}
    />
  );
}

/** Users cannot change their own role, and administrators cannot change an operator's. */
function RoleChoice({ of: { user_id, email, role }, onChanged }: { of: User; onChanged: () => void }) {
  const { send, isBusy, error } = useSending(async (chosen: User["role"]) => {
    await call(`/api/users/${user_id}/role`, { method: "PUT", body: { role: chosen } });
    onChanged();
  });
  if (!mayWrite.value || email === user.value?.email || !roles().includes(role)) return <>{role}</>;
  return (
    <>
      <Select aria-label={`Role of ${email}`} of={roles()} value={role} disabled={isBusy} onChoose={(chosen) => void send(chosen)} />
      <Problem message={error} />
    </>
  );
}

function Invitations() {
  return (
    <ResourceList<Invitation>
      title="Invitations"
      path="/api/invitations"
      idOf={(row) => row.invitation_id}
      nameOf={(row) => row.email}
      columns={[
        { head: "e-mail", cell: (row) => row.email },
        { head: "role", cell: (row) => row.role },
        { head: "limits", cell: (row) => limitsText(row.label_limits) },
        { head: "invited by", cell: (row) => row.created_by },
        timeColumn("expires", (row) => row.expires_at),
      ]}
      removal={(row) => `The link for ${row.email} stops working.`}
      createForm={{
        label: "Create invitation",
        fields: [{ name: "email", label: "E-mail", type: "email" }, { name: "role", label: "Role", choices: roles() }, LIMITS_FIELD],
        bodyOf: ({ email, role, limits }) => ({ email, role, ...limitsOf(limits) }),
        secret: {
          name: "token",
          label: "Send this link to the invited person. It can be used once, is valid for 7 days, and is not shown again.",
          textOf: (token) => `${location.origin}${location.pathname}#/invitation/${token}`,
        },
      }}
    />
  );
}

async function changePassword(form: HTMLFormElement): Promise<void> {
  const typed = formReader(form);
  await call("/api/auth/password", { method: "PUT", body: { current: typed("current"), password: typed("password") } });
  form.reset();
}

export function OwnPassword() {
  return (
    <Card title="Your password">
      <SavingForm layout="row" label="Change password" saved="Password changed. Your other sessions have ended." save={changePassword}>
        <input type="email" name="email" autoComplete="username" value={user.value?.email} readOnly hidden />
        <Field label="Current password" name="current" type="password" autoComplete="current-password" required />
        <Field label="New password" name="password" type="password" autoComplete="new-password" required minLength={8} maxLength={256} />
      </SavingForm>
    </Card>
  );
}

type Org = ApiResponses["GET /api/orgs"][number];

export function Organisations() {
  return (
    <ResourceList<Org>
      title="Organisations"
      path="/api/orgs"
      idOf={(row) => row.org_id}
      columns={[
        { head: "name", cell: (row) => row.name },
        { head: "id", cell: (row) => row.org_id },
      ]}
      createForm={{
        label: "Create organisation",
        fields: [
          { name: "name", label: "Name" },
          { name: "email", label: "Administrator's e-mail", type: "email" },
          { name: "password", label: "Password", type: "password" },
        ],
        bodyOf: ({ name, email, password }) => ({ name, admin: { email, password } }),
      }}
    />
  );
}
