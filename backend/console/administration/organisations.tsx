// Organisations, for an operator.
import { call } from "../state/api.ts";
import { Make, Things } from "./table.tsx";

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
      form={(reload) => (
        <Make
          label="Add organisation"
          onMake={async ({ name, email, password }) => {
            await call("/api/orgs", { method: "POST", body: { name, admin: { email, password } } });
            reload();
          }}
        >
          <label>
            Name
            <input name="name" required autoComplete="off" />
          </label>
          <label>
            E-mail of its administrator
            <input name="email" type="email" required autoComplete="off" />
          </label>
          <label>
            Password
            <input name="password" type="password" required autoComplete="new-password" />
          </label>
        </Make>
      )}
    />
  );
}
