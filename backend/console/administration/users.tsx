// Users of the organisation.
import { call } from "../state/api.ts";
import { user } from "../state/session.ts";
import { moment } from "../state/time.ts";
import { Make, Things } from "./table.tsx";

interface User {
  readonly user_id: string;
  readonly email: string;
  readonly role: string;
  readonly created_at: string;
}

export function Users() {
  return (
    <Things<User>
      title="Users"
      path="/api/users"
      idOf={(row) => row.user_id}
      columns={[
        { name: "e-mail", of: (row) => row.email },
        { name: "role", of: (row) => row.role },
        { name: "since", of: (row) => moment(row.created_at) },
      ]}
      removal={(row) => (row.email === user.value?.email ? undefined : `${row.email} can no longer log in; sessions end within 5 seconds.`)}
      form={(reload) => (
        <Make
          label="Add user"
          onMake={async ({ email, password, role }) => {
            await call("/api/users", { method: "POST", body: { email, password, role } });
            reload();
          }}
        >
          <label>
            E-mail
            <input name="email" type="email" required autoComplete="off" />
          </label>
          <label>
            Password
            <input name="password" type="password" required autoComplete="new-password" />
          </label>
          <label>
            Role
            <select name="role">
              <option>viewer</option>
              <option>admin</option>
            </select>
          </label>
        </Make>
      )}
    />
  );
}
