// Saves the address of the screen under a name, for everyone in the organisation. Saved views are found in the command palette and listed here.
import type { ApiResponses } from "../../client/api.ts";
import { call, wholeList } from "../state/api.ts";
import { useLoaded } from "../state/loaded.ts";
import { route } from "../state/route.ts";
import { typedIn } from "../state/sending.ts";
import { mayWrite } from "../state/session.ts";
import { Dialog, Status } from "./common.tsx";
import { Removal } from "./removal.tsx";
import { SavingForm } from "./saving-form.tsx";
import { visible } from "./text.ts";

type View = ApiResponses["GET /api/views"][number];

export function Views({ onClose }: { onClose: () => void }) {
  const found = useLoaded("views", async (signal) => await wholeList<View>("/api/views", signal));
  const rows = found.value.value?.rows ?? [];
  const save = async (form: HTMLFormElement): Promise<void> => {
    await call("/api/views", { method: "POST", body: { name: typedIn(form)("name").trim(), address: addressNow() } });
    form.reset();
    found.reload();
  };
  return (
    <Dialog title="Saved views" onClose={onClose}>
      <Status of={found} empty={rows.length === 0 && "None yet."}>
        <ul class="plain-list views">
          {rows.map((view) => (
            <li key={view.id}>
              {/* The backend stores only addresses within the console. */}
              <a href={view.address.startsWith("#/") ? view.address : "#/"} onClick={onClose}>
                <bdi>{visible(view.name)}</bdi>
              </a>
              {mayWrite.value && (
                <Removal
                  label="Remove"
                  fullLabel={`Remove ${visible(view.name)}`}
                  class="small"
                  path={`/api/views/${view.id}`}
                  onRemoved={found.reload}
                >
                  {visible(`${view.name} is removed for everyone in the organisation.`)}
                </Removal>
              )}
            </li>
          ))}
        </ul>
      </Status>
      {mayWrite.value && (
        <SavingForm label="Save this view" saved="Saved." save={save}>
          <label>
            Name of this view
            <input name="name" type="text" required maxLength={100} />
          </label>
        </SavingForm>
      )}
    </Dialog>
  );
}

/** Contains all choices except the chosen record, which is deleted after its retention. */
function addressNow(): string {
  const { screen, id, query } = route.peek();
  const kept = new URLSearchParams(query);
  kept.delete("record");
  const asked = kept.size > 0 ? `?${kept}` : "";
  return `#/${screen}${id ? `/${encodeURIComponent(id)}` : ""}${asked}`;
}
