// Saves the address of the screen under a name, for everyone in the organisation. Saved views are found in the command palette and listed here.
import { useSignal } from "@preact/signals";
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
  const leaving = useSignal<View | undefined>(undefined);
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
                <button type="button" class="small" aria-label={`Remove ${visible(view.name)}`} onClick={() => (leaving.value = view)}>
                  Remove
                </button>
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
      {leaving.value && (
        <Removal
          title="Remove?"
          path={`/api/views/${leaving.value.id}`}
          onClose={() => (leaving.value = undefined)}
          onRemoved={found.reload}
        >
          {visible(`${leaving.value.name} is removed for everyone in the organisation.`)}
        </Removal>
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
