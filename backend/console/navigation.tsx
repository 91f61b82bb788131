// The navigation at the side of every screen: search, links to the screens with the number of firing alerts, saved views, and the account with
// the choices of theme and time zone; and the dialog that lists the keys. The screens themselves are listed in state/screens.ts.
import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { ApiResponses } from "../client/api.ts";
import { Dialog, Facts, SenderText, ButtonLink, Button, Tabs, Icon, ICON_NAMES, Logo, Popover, ZoneTabs, visible } from "./parts/index.ts";
import type { IconName } from "./parts/index.ts";
import { call, isHelpOpen, isPaletteOpen, isViewsOpen, useLoaded, address, route, logOut, user } from "./state/index.ts";
import { type Screen, screenNamed, SCREENS } from "./state/screens.ts";

const IN_NAVIGATION = SCREENS.filter(({ key }) => key !== undefined);
const ALERTS_EVERY_MS = 30_000;

/** Colours that the user chose: `light`, `dark`, or empty for the choice of the operating system. */
export const colourScheme = signal(localStorage.getItem("atherops.scheme") ?? "");
colourScheme.subscribe((chosen) => {
  document.documentElement.dataset["scheme"] = chosen;
  localStorage.setItem("atherops.scheme", chosen);
});

export function Navigation() {
  // On a phone, the links are behind a button.
  const isOpen = useSignal(false);
  const { screen, id } = route.value;
  useEffect(() => void (isOpen.value = false), [screen, id]);
  return (
    <header class={`nav ${isOpen.value ? "is-open" : ""}`}>
      <a
        class="skip"
        href={location.hash}
        onClick={(event) => (event.preventDefault(), document.querySelector<HTMLElement>("#main")?.focus())}
      >
        Skip to content
      </a>
      <a class="brand" href={address("overview")} aria-label="AtherOps, overview">
        <Logo />
        <span>AtherOps</span>
      </a>
      <Item class="menu-button" icon="menu" text="Menu" isExpanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.value)} />
      <Item class="find" icon="search" text="Go to …" keys="Ctrl K" onClick={() => (isPaletteOpen.value = true)} />
      <ScreenLinks />
      <Item icon="views" text="Views" title="Saved views" onClick={() => (isViewsOpen.value = true)} />
      <Account />
    </header>
  );
}

interface ItemProps {
  readonly icon: IconName;
  readonly text: string;
  readonly keys?: string;
  readonly title?: string;
  readonly class?: string;
  readonly isExpanded?: boolean;
  readonly onClick: () => void;
}

function Item({ icon, text, keys, title = text, class: name = "", isExpanded, onClick }: ItemProps) {
  return (
    <button type="button" class={`item ${name}`} title={title} aria-expanded={isExpanded} onClick={onClick}>
      <Icon name={icon} />
      <span>{text}</span>
      {keys && <kbd aria-hidden="true">{keys}</kbd>}
    </button>
  );
}

function ScreenLinks() {
  const current = screenNamed(route.value.screen)?.parent ?? route.value.screen;
  const [daily, administration] = [false, true].map((is) =>
    IN_NAVIGATION.filter(({ isAdministration = false }) => isAdministration === is),
  );
  const linkTo = (screen: Screen) => <ScreenLink screen={screen} current={current} key={screen.name} />;
  return (
    <nav aria-label="Screens">
      {daily?.map(linkTo)}
      <p class="nav-title">Administration</p>
      {administration?.map(linkTo)}
    </nav>
  );
}

function ScreenLink({ screen: { name, title, key, keepsRange }, current }: { screen: Screen; current: string }) {
  const { from, to } = Object.fromEntries(route.value.query);
  // Icons of screens have their names.
  const icon = ICON_NAMES.find((known) => known === name);
  return (
    <a
      class="item"
      href={address(name, keepsRange ? { from, to } : {})}
      aria-current={name === current ? "page" : undefined}
      title={`${title} (g ${key})`}
    >
      {icon && <Icon name={icon} />}
      <span>{title}</span>
      {name === "alerts" && <FiringCount />}
    </a>
  );
}

type Alerts = ApiResponses["GET /alerting/prometheus/api/v1/alerts"];

/** The number of firing alerts; nothing if there is none, or if it cannot be read. */
function FiringCount() {
  const loaded = useLoaded("firing", async (signal) => (await call<Alerts>("/alerting/prometheus/api/v1/alerts", { signal })).data.alerts, {
    refreshMs: ALERTS_EVERY_MS,
    isBackground: true,
  });
  const firing = loaded.error.value ? 0 : (loaded.value.value?.filter(({ state }) => state === "firing").length ?? 0);
  if (firing === 0) return null;
  return (
    <b class="badge is-strong">
      {firing}
      <span class="unseen"> firing</span>
    </b>
  );
}

function Account() {
  const { email = "", role = "", org } = user.value ?? {};
  return (
    <Popover
      label="Account"
      class="item"
      title="Account"
      panelClass="account"
      button={
        <>
          <Icon name="user" />
          <span>
            <bdi>{visible(org?.name ?? "")}</bdi> · {role}
          </span>
        </>
      }
    >
      {(close) => (
        <>
          <Facts
            of={[
              ["User", <SenderText text={email} />],
              ["Organisation", <SenderText text={org?.name ?? ""} />],
              ["Role", role],
            ]}
          />
          <Tabs label="Theme" tabs={THEMES} chosen={colourScheme.value} onChoose={(scheme) => (colourScheme.value = scheme)} />
          <ZoneTabs />
          <div class="menu">
            <ButtonLink href={address("settings", { part: "users" })} onClick={close} text="Change password" />
            <Button onClick={() => (close(), (isHelpOpen.value = true))} text="Keyboard shortcuts" />
            <hr />
            <Button onClick={() => void logOut()} text="Log out" />
          </div>
        </>
      )}
    </Popover>
  );
}

const THEMES = [
  ["", "System"],
  ["light", "Light"],
  ["dark", "Dark"],
] as const;

const HELP = [
  [`g, then ${IN_NAVIGATION.map(({ key }) => key).join(" ")}`, `go to ${IN_NAVIGATION.map(({ title }) => title.toLowerCase()).join(", ")}`],
  ["Ctrl-K", "search screens, services, hosts, pods, metrics, alert rules, dashboards, saved views, and actions"],
  ["/", "focus the query"],
  ["j k", "next and previous row"],
  ["Enter", "open the row"],
  ["Escape", "close"],
  ["?", "show this list"],
] as const;

export function Help() {
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => (isHelpOpen.value = false)}>
      <Facts class="keys" of={HELP.map(([key, words]) => [<kbd>{key}</kbd>, words])} />
    </Dialog>
  );
}
