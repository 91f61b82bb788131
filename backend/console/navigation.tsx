// The header of every screen: links to the screens, the user and the organisation, and the choices of time zone and colours; and the dialog
// that lists the keys. The screens themselves are listed in state/screens.ts.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { isHelpOpen, isPaletteOpen, isViewsOpen } from "./state/keys.ts";
import { address, route } from "./state/route.ts";
import { screenNamed, SCREENS } from "./state/screens.ts";
import { utc } from "./state/time.ts";
import { Dialog, Options } from "./parts/common.tsx";
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
        To the content
      </a>
      <ScreenLinks />
      <div class="who">
        <button type="button" class="small" title="Ctrl-K" onClick={() => (isPaletteOpen.value = true)}>
          Go to …
        </button>
        <button type="button" class="small" title="Saved views" onClick={() => (isViewsOpen.value = true)}>
          Views
        </button>
        <TimeZoneButton />
        <ColourChoice />
        <span class="quiet org" title={user.value?.email}>
          {user.value?.org.name} · {user.value?.role}
        </span>
        <button type="button" class="small" aria-label="Keys" onClick={() => (isHelpOpen.value = true)}>
          ?
        </button>
        <button type="button" class="small" onClick={() => void logOut()}>
          Log out
        </button>
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

function TimeZoneButton() {
  const title = "Times in UTC or in your zone";
  return (
    <button type="button" class="small" aria-pressed={utc.value} onClick={() => (utc.value = !utc.value)} title={title}>
      {utc.value ? "UTC" : "local time"}
    </button>
  );
}

function ColourChoice() {
  return (
    <select aria-label="Colours" value={colourScheme.value} onChange={(event) => (colourScheme.value = event.currentTarget.value)}>
      <Options of={[["", "system"], "light", "dark"]} />
    </select>
  );
}

const HELP = [
  [`g, then ${IN_NAVIGATION.map(({ key }) => key).join(" ")}`, `to ${IN_NAVIGATION.map(({ title }) => title.toLowerCase()).join(", ")}`],
  ["Ctrl-K", "command palette: search screens, services, hosts, pods, dashboards, saved views"],
  ["/", "into the query"],
  ["j k", "next and previous row"],
  ["Enter", "open the row"],
  ["Escape", "close"],
  ["?", "this list"],
] as const;

/** The list of keys, which `?` opens. */
export function Help() {
  return (
    <Dialog title="Keys" onClose={() => (isHelpOpen.value = false)}>
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
