// Organisations, for an operator.
import { Things } from "./things.tsx";

interface Org {
  readonly org_id: string;
  readonly name: string;
}

export function Organisations() {
  return (
    <Things<Org>
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
