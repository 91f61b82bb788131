// Manages the organisation's users and their roles, invitations, and the user's own password; for operators, also organisations.
import { useSignal } from "@preact/signals";
import type { ApiResponses } from "../../client/api.ts";
import { Options, Problem } from "../parts/common.tsx";
import { call } from "../state/api.ts";
import { submitBy, typedIn, useSending } from "../state/sending.ts";
import { momentColumn, ResourceList } from "./resource-list.tsx";
import { isOperator, mayWrite, user } from "../state/session.ts";

type User = ApiResponses["GET /api/users"][number];
type Invitation = ApiResponses["GET /api/invitations"][number];

const roles = (): string[] => ["viewer", "admin", ...(isOperator.value ? ["operator"] : [])];

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
  return (
    <ResourceList<User>
      title="Users"
      path="/api/users"
      idOf={(row) => row.user_id}
      columns={[
        { name: "e-mail", of: (row) => row.email },
        { name: "role", of: (row) => row.role, control: (row, onChanged) => <RoleChoice of={row} onChanged={onChanged} /> },
        momentColumn("since", (row) => row.created_at),
      ]}
      removal={(row) => (row.email === user.value?.email ? undefined : `${row.email} can no longer log in; sessions end within 5 seconds.`)}
    />
  );
}

/** The own role cannot be changed, and administrators cannot change an operator's. */
function RoleChoice({ of: { user_id, email, role }, onChanged }: { of: User; onChanged: () => void }) {
  const { send, isBusy, error } = useSending(async (chosen: string) => {
    await call(`/api/users/${user_id}/role`, { method: "PUT", body: { role: chosen } });
    onChanged();
  });
  if (email === user.value?.email || !roles().includes(role)) return role;
  return (
    <>
      <select
        aria-label={`Role of ${email}`}
        // A refused choice is not shown.
        key={error}
        value={role}
        disabled={isBusy}
        onChange={(event) => void send(event.currentTarget.value)}
      >
        <Options of={roles()} />
      </select>
      <Problem words={error} />
    </>
  );
}

function Invitations() {
  return (
    <ResourceList<Invitation>
      title="Invitations"
      path="/api/invitations"
      idOf={(row) => row.invitation_id}
      columns={[
        { name: "e-mail", of: (row) => row.email },
        { name: "role", of: (row) => row.role },
        { name: "invited by", of: (row) => row.created_by },
        momentColumn("expires", (row) => row.expires_at),
      ]}
      removal={(row) => `The link for ${row.email} stops working.`}
      createForm={{
        label: "Invite",
        fields: [
          { name: "email", label: "E-mail", type: "email" },
          { name: "role", label: "Role", choices: roles() },
        ],
        secret: {
          name: "token",
          label: "Send this link to the person. It works once, for 7 days, and is not shown again.",
          textOf: (token) => `${location.origin}${location.pathname}#/invitation/${token}`,
        },
      }}
    />
  );
}

function OwnPassword() {
  const { send, isBusy, error } = useSending(async (form: HTMLFormElement) => {
    isChanged.value = false;
    const typed = typedIn(form);
    await call("/api/auth/password", { method: "PUT", body: { current: typed("current"), password: typed("password") } });
    form.reset();
    isChanged.value = true;
  });
  const isChanged = useSignal(false);
  return (
    <section class="card" aria-label="Your password">
      <h2>Your password</h2>
      <form class="row" onSubmit={submitBy(send)}>
        <input type="email" name="email" autoComplete="username" value={user.value?.email} readOnly hidden />
        <label>
          Current password
          <input name="current" type="password" autoComplete="current-password" required />
        </label>
        <label>
          New password
          <input name="password" type="password" autoComplete="new-password" required minLength={8} maxLength={256} />
        </label>
        <button type="submit" disabled={isBusy}>
          Change password
        </button>
        <Problem words={error} />
        {isChanged.value && <p role="status">Changed. Your other sessions have ended.</p>}
      </form>
    </section>
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
        { name: "name", of: (row) => row.name },
        { name: "id", of: (row) => row.org_id },
      ]}
      createForm={{
        label: "Add organisation",
        fields: [
          { name: "name", label: "Name" },
          { name: "email", label: "E-mail of its administrator", type: "email" },
          { name: "password", label: "Password", type: "password" },
        ],
        bodyOf: ({ name, email, password }) => ({ name, admin: { email, password } }),
      }}
    />
  );
}
