// Dashboards: the list of those of the organisation and those included with the product, a dashboard with its panels, and its editor. Imports
// read our own JSON and Grafana's.
import { Bar, Card, NameLink, Problem, Status, type Column, Table, RemoveButton, saveFile, visible } from "../parts/index.ts";
import { ButtonLink, Button, CreateLink } from "../parts/controls.tsx";
import { TimePicker, useScreenRange } from "../parts/time-picker.tsx";
import { useSignal } from "@preact/signals";
import type { ApiResponses } from "../../client/api.ts";
import { wholeList, useLoaded, address, route, useSending, mayWrite, timestampText } from "../state/index.ts";
import { Board } from "./board.tsx";
import { type Dashboard, pathOf, readDashboard, storeDashboard } from "./dashboard.ts";
import { readDashboardFile } from "./grafana.ts";
import { readShipped, SHIPPED, SHIPPED_PREFIX } from "./shipped.ts";
import { Editor } from "./editor.tsx";

type Listed = ApiResponses["GET /api/dashboards"][number];

const NEW = "new";

export function Dashboards() {
  const { id, query } = route.value;
  if (id === undefined || (id === NEW && !mayWrite.value)) return <List />;
  // A viewer may be sent the address of the editor.
  if (mayWrite.value && (id === NEW || query.get("edit") === "1")) return <Edited id={id} key={id} />;
  return <Shown id={id} key={id} />;
}

const COLUMNS: readonly Column<Listed>[] = [
  { head: "name", kind: "name", cell: ({ id, name }) => <NameLink href={address("dashboards", {}, id)} text={name} /> },
  { head: "changed", cell: (row) => timestampText(row.updated_at) },
  { head: "by", cell: (row) => row.updated_by },
];

function List() {
  const loaded = useLoaded("dashboards", async (signal) => await wholeList<Listed>("/api/dashboards", signal));
  const rows = loaded.value.value?.rows ?? [];
  return (
    <section class="screen dashboards" aria-labelledby="title">
      <Bar title="Dashboards">
        <CreateLink href={address("dashboards", {}, NEW)} text="Create dashboard" />
        {mayWrite.value && <Import />}
      </Bar>
      <Card title="Your organisation" label="Dashboards of your organisation">
        <Status of={loaded} empty={rows.length === 0 && "No dashboards. Create one, import one from Grafana, or copy one of those below."}>
          <Table title="Dashboards of your organisation" rows={rows} columns={COLUMNS} />
        </Status>
      </Card>
      <Card title="Included with AtherOps" label="Dashboards included with AtherOps">
        <ul class="plain-list">
          {SHIPPED.map(({ id, title }) => (
            <li key={id}>
              <a href={address("dashboards", {}, SHIPPED_PREFIX + id)}>{title}</a>
            </li>
          ))}
        </ul>
      </Card>
    </section>
  );
}

function Import() {
  const omitted = useSignal<readonly string[]>([]);
  const { send, isBusy, error } = useSending(async (file: File) => {
    const imported = await readDashboardFile(file);
    const id = await storeDashboard(imported.dashboard);
    omitted.value = imported.omitted;
    return imported.omitted.length === 0 ? address("dashboards", {}, id) : undefined;
  });
  return (
    <>
      <label class="button">
        {isBusy ? "Importing …" : "Import JSON"}
        <input
          class="unseen"
          type="file"
          accept="application/json,.json"
          onChange={(event) => {
            const [file] = event.currentTarget.files ?? [];
            if (file) void send(file);
            event.currentTarget.value = "";
          }}
        />
      </label>
      <Problem message={error} />
      {omitted.value.length > 0 && (
        <div class="card" role="status">
          <p>Imported without:</p>
          <ul class="periods">
            {omitted.value.map((words, at) => (
              <li key={at}>
                <bdi>{visible(words)}</bdi>
              </li>
            ))}
          </ul>
        </div>
      )}
    </>
  );
}

/** A stored or shipped dashboard. Throws ApiFailure. */
async function findDashboard(id: string, signal: AbortSignal): Promise<Dashboard> {
  if (id.startsWith(SHIPPED_PREFIX)) {
    const shipped = await readShipped(id.slice(SHIPPED_PREFIX.length));
    if (!shipped) throw new Error("Dashboard not found.");
    return shipped;
  }
  return await readDashboard(id, signal);
}

function Shown({ id }: { id: string }) {
  const loaded = useLoaded(id, async (signal) => await findDashboard(id, signal));
  const { refresh, rangeKey } = useScreenRange();
  const dashboard = loaded.value.value;
  return (
    <section class="screen dashboards" aria-labelledby="title">
      <Bar title={dashboard?.name ?? "Dashboard"} onNow={refresh}>
        {dashboard && <Actions id={id} dashboard={dashboard} />}
        <a href={address("dashboards")}>All dashboards</a>
      </Bar>
      <Status of={loaded}>
        {dashboard && (
          <>
            {dashboard.description && (
              <p class="quiet">
                <bdi>{visible(dashboard.description)}</bdi>
              </p>
            )}
            <Board dashboard={dashboard} requestKey={rangeKey} />
          </>
        )}
      </Status>
    </section>
  );
}

function Actions({ id, dashboard }: { id: string; dashboard: Dashboard }) {
  const isShipped = id.startsWith(SHIPPED_PREFIX);
  const { send, isBusy, error } = useSending(async () => {
    const copied = await storeDashboard({ ...dashboard, name: `Copy of ${dashboard.name}`.slice(0, 100) });
    return address("dashboards", { edit: "1" }, copied);
  });
  return (
    <>
      <Button onClick={() => download(dashboard)} text="Export JSON" />
      {mayWrite.value && (
        <>
          <Button disabled={isBusy} onClick={() => void send()} text="Copy" />
          {!isShipped && (
            <>
              <ButtonLink href={address("dashboards", { edit: "1" }, id)} text="Edit" />
              <RemoveButton label="Remove" class="" path={pathOf(id)} onRemoved={() => address("dashboards")}>
                {visible(`${dashboard.name} is removed for everyone in your organisation.`)}
              </RemoveButton>
            </>
          )}
        </>
      )}
      <Problem message={error} />
    </>
  );
}

function download(dashboard: Dashboard): void {
  const contents = new Blob([`${JSON.stringify(dashboard, undefined, 1)}\n`], { type: "application/json" });
  saveFile(`${dashboard.name.replaceAll(/[^\w-]+/g, "-") || "dashboard"}.json`, contents);
}

const EMPTY: Dashboard = { name: "", description: "", variables: [], panels: [] };

function Edited({ id }: { id: string }) {
  const loaded = useLoaded(id, async (signal) => (id === NEW ? EMPTY : await findDashboard(id, signal)));
  const dashboard = loaded.value.value;
  const save = async (changed: Dashboard): Promise<string> =>
    address("dashboards", {}, await storeDashboard(changed, id === NEW ? undefined : id));
  return (
    <section class="screen dashboards" aria-labelledby="title">
      <Bar title={id === NEW ? "New dashboard" : "Edit dashboard"}>
        <TimePicker />
        <a href={address("dashboards", {}, id === NEW ? undefined : id)}>Discard changes</a>
      </Bar>
      <Status of={loaded}>{dashboard && <Editor dashboard={dashboard} save={save} />}</Status>
    </section>
  );
}
