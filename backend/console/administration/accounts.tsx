// Users of the organisation; and organisations, for an operator.
import type { ApiResponses } from "../../client/api.ts";
import { moment } from "../state/time.ts";
import { ResourceList } from "./resource-list.tsx";
import { user } from "../state/session.ts";

type User = ApiResponses["GET /api/users"][number];

export function Users() {
  return (
    <ResourceList<User>
      title="Users"
      path="/api/users"
      idOf={(row) => row.user_id}
      columns={[
        { name: "e-mail", of: (row) => row.email },
        { name: "role", of: (row) => row.role },
        { name: "since", of: (row) => moment(row.created_at) },
      ]}
      removal={(row) => (row.email === user.value?.email ? undefined : `${row.email} can no longer log in; sessions end within 5 seconds.`)}
      making={{
        label: "Add user",
        fields: [
          { name: "email", label: "E-mail", type: "email" },
          { name: "password", label: "Password", type: "password" },
          { name: "role", label: "Role", choices: ["viewer", "admin"] },
        ],
      }}
    />
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
      making={{
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
