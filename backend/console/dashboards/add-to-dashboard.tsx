// Adds what a screen shows as a panel to a dashboard, which is chosen in a dialog, or created.
import { useSignal } from "@preact/signals";
import type { ApiResponses } from "../../client/api.ts";
import { Dialog, Status, Button, Field, Select, SavingForm } from "../parts/index.ts";
import { wholeList, useLoaded, address, formReader, mayWrite } from "../state/index.ts";
import { type Panel, readDashboard, storeDashboard } from "./dashboard.ts";

type Listed = ApiResponses["GET /api/dashboards"][number];

const NEW = "new";
const MAX_TITLE = 200;

/** `panel`: without a title. Shown to users who may change dashboards. */
export function AddToDashboard({ panel }: { panel: Omit<Panel, "title"> }) {
  const isOpen = useSignal(false);
  if (!mayWrite.value) return null;
  return (
    <>
      <Button onClick={() => (isOpen.value = true)} text="Add to dashboard" />
      {isOpen.value && <Choice panel={panel} onClose={() => (isOpen.value = false)} />}
    </>
  );
}

function Choice({ panel, onClose }: { panel: Omit<Panel, "title">; onClose: () => void }) {
  const chosen = useSignal<string | undefined>(undefined);
  const loaded = useLoaded("dashboards", async (signal) => await wholeList<Listed>("/api/dashboards", signal));
  const rows = loaded.value.value?.rows ?? [];
  const id = chosen.value ?? rows[0]?.id ?? NEW;
  const save = async (form: HTMLFormElement): Promise<string> => {
    const text = formReader(form);
    const added: Panel = { title: text("title").trim(), ...panel };
    const into = id === NEW ? { name: text("name").trim(), description: "", variables: [], panels: [] } : await readDashboard(id);
    const stored = await storeDashboard({ ...into, panels: [...into.panels, added] }, id === NEW ? undefined : id);
    return address("dashboards", {}, stored);
  };
  return (
    <Dialog title="Add to dashboard" onClose={onClose}>
      <Status of={loaded}>
        <SavingForm label="Add" save={save}>
          <Field label="Title" name="title" required maxLength={MAX_TITLE} defaultValue={titleOf(panel)} />
          <Select
            label="Dashboard"
            value={id}
            of={[...rows.map((row) => [row.id, row.name] as const), [NEW, "a new dashboard"] as const]}
            onChoose={(value) => (chosen.value = value)}
          />
          {id === NEW && <Field label="Name of the new dashboard" name="name" required maxLength={100} />}
        </SavingForm>
      </Status>
    </Dialog>
  );
}

function titleOf({ queries, source }: Omit<Panel, "title">): string {
  return (queries[0]?.query || source).slice(0, MAX_TITLE);
}
