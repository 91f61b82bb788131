// Saves the address of the screen under a name, for everyone in the organisation. Saved views are found in the command palette and listed here.
import type { ApiResponses } from "../../client/api.ts";
import { call, wholeList } from "../state/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { changedAddress, route } from "../state/route.ts";
import { formReader } from "../state/sending.ts";
import { mayWrite } from "../state/session.ts";
import { mayLeave } from "../state/unsaved.ts";
import { Dialog, Status } from "./common.tsx";
import { Field } from "./controls.tsx";
import { RemoveButton } from "./removal.tsx";
import { SavingForm } from "./saving-form.tsx";
import { visible } from "./text.ts";

type View = ApiResponses["GET /api/views"][number];

export function Views({ onClose }: { onClose: () => void }) {
  const loaded = useLoaded("views", async (signal) => await wholeList<View>("/api/views", signal));
  const rows = loaded.value.value?.rows ?? [];
  const save = async (form: HTMLFormElement): Promise<void> => {
    // Without the chosen record, which is deleted after its retention.
    const address = changedAddress(route.peek(), { record: undefined });
    await call("/api/views", { method: "POST", body: { name: formReader(form)("name").trim(), address } });
    form.reset();
    loaded.reload();
  };
  return (
    <Dialog title="Saved views" onClose={onClose}>
      <Status of={loaded} empty={rows.length === 0 && "No saved views."}>
        <ul class="plain-list views">
          {rows.map((view) => (
            <li key={view.id}>
              {/* The backend stores only addresses within the console. */}
              <a
                href={view.address.startsWith("#/") ? view.address : "#/"}
                onClick={(event) => (mayLeave() ? onClose() : event.preventDefault())}
              >
                <bdi>{visible(view.name)}</bdi>
              </a>
              {mayWrite.value && (
                <RemoveButton
                  label="Remove"
                  fullLabel={`Remove ${visible(view.name)}`}
                  class="small"
                  path={`/api/views/${view.id}`}
                  onRemoved={loaded.reload}
                >
                  {visible(`${view.name} is removed for everyone in your organisation.`)}
                </RemoveButton>
              )}
            </li>
          ))}
        </ul>
      </Status>
      {mayWrite.value && (
        <SavingForm label="Create view" saved="Saved." save={save}>
          <Field label="View name" name="name" data-first required maxLength={100} />
        </SavingForm>
      )}
    </Dialog>
  );
}
