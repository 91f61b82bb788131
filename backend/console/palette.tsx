// The command palette (Ctrl-K or Cmd-K): a search over screens, services, hosts, nodes, clusters, pods, dashboards, alert rules and saved views.
// Everything but the screens is read when it is opened, and a list that cannot be read is left out.
import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { Dialog } from "./parts/common.tsx";
import { visible } from "./parts/text.ts";
import { findTargets, readTargets, SCREEN_TARGETS, type Target } from "./palette-targets.ts";
import { isPaletteOpen } from "./state/keys.ts";
import { useLoaded } from "./state/loaded.ts";
import { go } from "./state/route.ts";

function open(target: Target | undefined): void {
  if (!target) return;
  isPaletteOpen.value = false;
  go(target.href);
}

export function Palette() {
  const typed = useSignal("");
  const chosen = useSignal(0);
  const listId = useId();
  const loaded = useLoaded("palette", readTargets);
  const results = findTargets([...SCREEN_TARGETS, ...(loaded.value.value ?? [])], typed.value);
  const at = Math.min(chosen.value, results.length - 1);
  const step = (by: number): void => void (chosen.value = Math.max(0, Math.min(results.length - 1, at + by)));
  return (
    <Dialog title="Go to" onClose={() => (isPaletteOpen.value = false)}>
      <input
        // The dialog focuses it when it opens.
        autofocus
        type="text"
        role="combobox"
        aria-label="Search"
        aria-expanded="true"
        aria-controls={listId}
        aria-activedescendant={results.length > 0 ? `${listId}-${at}` : undefined}
        placeholder="a screen, service, host, pod, dashboard, saved view"
        autoComplete="off"
        spellcheck={false}
        value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          chosen.value = 0;
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") step(1);
          else if (event.key === "ArrowUp") step(-1);
          else if (event.key === "Enter") open(results[at]);
          else return;
          event.preventDefault();
        }}
      />
      <ul class="palette" role="listbox" id={listId} aria-label="Results">
        {results.map((target, index) => (
          <li
            key={`${target.kind} ${target.href}`}
            id={`${listId}-${index}`}
            role="option"
            aria-selected={index === at}
            onClick={() => open(target)}
          >
            <bdi>{visible(target.name)}</bdi> <span class="quiet">{target.kind}</span>
          </li>
        ))}
      </ul>
      <p class="quiet" role="status">
        {results.length === 0 ? "No matches." : loaded.busy.value ? "Loading names …" : ""}
      </p>
    </Dialog>
  );
}
