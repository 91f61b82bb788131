// The command palette (Ctrl-K or Cmd-K): a search over screens, actions, services, hosts, nodes, clusters, pods, metrics, dashboards, alert
// rules, saved views, and traces by id. All names are read when it is opened, and a list that cannot be read is left out.
import { useSignal } from "@preact/signals";
import { useEffect, useId } from "preact/hooks";
import { Dialog, visible } from "./parts/index.ts";
import { colourScheme } from "./navigation.tsx";
import { findTargets, FORM_TARGETS, readTargets, SCREEN_TARGETS, type Target, traceTarget } from "./palette-targets.ts";
import { isHelpOpen, isPaletteOpen, isViewsOpen, paletteText, useLoaded, go, logOut, mayWrite, utc } from "./state/index.ts";

function open(target: Target | undefined): void {
  if (!target) return;
  isPaletteOpen.value = false;
  if (target.run) target.run();
  else go(target.href);
}

const ACTIONS: readonly Target[] = [
  ["Light theme", () => (colourScheme.value = "light")] as const,
  ["Dark theme", () => (colourScheme.value = "dark")] as const,
  ["Show times in UTC", () => (utc.value = true)] as const,
  ["Show times in local time", () => (utc.value = false)] as const,
  ["Keyboard shortcuts", () => (isHelpOpen.value = true)] as const,
  ["Saved views", () => (isViewsOpen.value = true)] as const,
  ["Log out", () => void logOut()] as const,
].map(([name, run]) => ({ kind: "action", name, href: "", run }));

export function Palette() {
  const typed = paletteText;
  const chosen = useSignal(0);
  const listId = useId();
  useEffect(() => () => void (typed.value = ""), []);
  const loaded = useLoaded("palette", readTargets);
  const known = [...SCREEN_TARGETS, ...(mayWrite.value ? FORM_TARGETS : []), ...ACTIONS, ...(loaded.value.value ?? [])];
  const results = [...traceTarget(typed.value), ...findTargets(known, typed.value)];
  const at = Math.min(chosen.value, results.length - 1);
  const step = (by: number): void => void (chosen.value = Math.max(0, Math.min(results.length - 1, at + by)));
  return (
    <Dialog title="Go to" onClose={() => (isPaletteOpen.value = false)}>
      <input
        data-first
        type="text"
        role="combobox"
        aria-label="Search"
        aria-expanded="true"
        aria-controls={listId}
        aria-activedescendant={results.length > 0 ? `${listId}-${at}` : undefined}
        placeholder="a screen, service, host, pod, metric, dashboard, trace id, action"
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
            key={`${target.kind} ${target.name} ${target.href}`}
            id={`${listId}-${index}`}
            role="option"
            aria-selected={index === at}
            onClick={() => open(target)}
          >
            <bdi>{visible(target.name)}</bdi> <span class="faint">{target.kind}</span>
          </li>
        ))}
      </ul>
      <p class="quiet" role="status">
        {results.length === 0 ? "No matches." : loaded.busy.value ? "Loading names …" : ""}
      </p>
    </Dialog>
  );
}
