// The header of every screen: links to the screens, the user and the organisation, and the choices of time zone and colours; and the dialog
// that lists the keys. The screens themselves are listed in state/screens.ts.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { isHelpOpen, isPaletteOpen, isViewsOpen } from "./state/keys.ts";
import { address, route } from "./state/route.ts";
import { screenNamed, SCREENS } from "./state/screens.ts";
import { utc } from "./state/time.ts";
import { Dialog } from "./parts/common.tsx";
import { Button, Select, Toggle } from "./parts/controls.tsx";
import { logOut, user } from "./state/session.ts";

const IN_NAVIGATION = SCREENS.filter(({ key }) => key !== undefined);

/** Colours that the user chose: `light`, `dark`, or empty for the choice of the operating system. */
const colourScheme = signal(localStorage.getItem("atherops.scheme") ?? "");
colourScheme.subscribe((chosen) => {
  document.documentElement.dataset["scheme"] = chosen;
  localStorage.setItem("atherops.scheme", chosen);
});

export function Navigation() {
  return (
    <header class="top">
      <a
        class="skip"
        href={location.hash}
        onClick={(event) => (event.preventDefault(), document.querySelector<HTMLElement>("#main")?.focus())}
      >
        Skip to content
      </a>
      <ScreenLinks />
      <div class="who">
        <Button class="small" title="Ctrl-K" onClick={() => (isPaletteOpen.value = true)} text="Go to …" />
        <Button class="small" title="Saved views" onClick={() => (isViewsOpen.value = true)} text="Views" />
        <Toggle
          class="small"
          title="Show times in UTC or in your time zone"
          text={utc.value ? "UTC" : "local time"}
          isOn={utc.value}
          onToggle={(isOn) => (utc.value = isOn)}
        />
        <Select
          aria-label="Theme"
          value={colourScheme.value}
          of={[["", "system"], "light", "dark"]}
          onChoose={(scheme) => (colourScheme.value = scheme)}
        />
        <span class="quiet org" title={user.value?.email}>
          {user.value?.org.name} · {user.value?.role}
        </span>
        <Button class="small" aria-label="Keyboard shortcuts" onClick={() => (isHelpOpen.value = true)} text="?" />
        <Button class="small" onClick={() => void logOut()} text="Log out" />
      </div>
    </header>
  );
}

function ScreenLinks() {
  const { screen: open, query } = route.value;
  const current = screenNamed(open)?.parent ?? open;
  const { from, to } = Object.fromEntries(query);
  const links = useRef<HTMLElement>(null);
  // On a phone the links scroll sideways.
  useEffect(() => links.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [current]);
  return (
    <nav aria-label="Screens" ref={links}>
      {IN_NAVIGATION.map(({ name, title, key, keepsRange }) => (
        <a
          key={name}
          href={address(name, keepsRange ? { from, to } : {})}
          aria-current={name === current ? "page" : undefined}
          title={`g ${key}`}
        >
          {title}
        </a>
      ))}
    </nav>
  );
}

const HELP = [
  [`g, then ${IN_NAVIGATION.map(({ key }) => key).join(" ")}`, `go to ${IN_NAVIGATION.map(({ title }) => title.toLowerCase()).join(", ")}`],
  ["Ctrl-K", "command palette: search screens, services, hosts, pods, dashboards, saved views"],
  ["/", "focus the query"],
  ["j k", "next and previous row"],
  ["Enter", "open the row"],
  ["Escape", "close"],
  ["?", "show this list"],
] as const;

/** The list of keys, which `?` opens. */
export function Help() {
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => (isHelpOpen.value = false)}>
      <dl class="keys">
        {HELP.map(([key, words]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
