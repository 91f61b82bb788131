// Settings: users, credentials, and organisations for an operator. Each part is a table, with a form if the role may write.
import { Tabs } from "../parts/common.tsx";
import { choose, route } from "../state/route.ts";
import { Credentials } from "./credentials.tsx";
import { Audit, Usage } from "./records.tsx";
import { Organisations, Users } from "./accounts.tsx";
import { isOperator, mayWrite } from "../state/session.ts";

export function Administration() {
  const parts = [
    ["users", "Users", Users, true],
    ["credentials", "Keys and tokens", Credentials, true],
    ["usage", "Usage", Usage, true],
    ["audit", "Audit", Audit, mayWrite.value],
    ["organisations", "Organisations", Organisations, isOperator.value],
  ] as const;
  const shown = parts.filter(([, , , isShown]) => isShown);
  const chosen = shown.find(([name]) => name === route.value.query.get("part")) ?? shown[0];
  const Part = chosen?.[2] ?? Users;
  return (
    <section class="screen narrow" aria-labelledby="title">
      <h1 id="title">Settings</h1>
      <Tabs label="Parts" tabs={shown} chosen={chosen?.[0]} onChoose={(part) => choose({ part })} />
      {!mayWrite.value && <p class="quiet">You can read here; changes need the role admin.</p>}
      <Part />
    </section>
  );
}
