// The frame of every screen: where one can go, who one is, how it looks.
import { signal } from "@preact/signals";
import { isHelpOpen } from "./state/keys.ts";
import { address, route } from "./state/route.ts";
import { utc } from "./state/time.ts";
import { Dialog } from "./parts/common.tsx";
import { logOut, user } from "./state/session.ts";

const SCREENS = [
  ["overview", "Overview", "o"],
  ["services", "Services", "v"],
  ["fleet", "Fleet", "f"],
  ["logs", "Logs", "l"],
  ["traces", "Traces", "t"],
  ["metrics", "Metrics", "m"],
  ["alerts", "Alerts", "a"],
  ["settings", "Settings", "s"],
] as const;

const scheme = signal(localStorage.getItem("atherops.scheme") ?? "");
scheme.subscribe((chosen) => {
  document.documentElement.dataset["scheme"] = chosen;
  localStorage.setItem("atherops.scheme", chosen);
});

export function Navigation() {
  const at = route.value.screen === "add" ? "fleet" : route.value.screen;
  const { from, to } = Object.fromEntries(route.value.query);
  return (
    <header class="top">
      <a
        class="skip"
        href={location.hash}
        onClick={(event) => (event.preventDefault(), document.querySelector<HTMLElement>("#main")?.focus())}
      >
        To the content
      </a>
      <nav aria-label="Screens">
        {SCREENS.map(([screen, label, key]) => (
          <a
            key={screen}
            // The stretch of time goes along: what was seen in one signal is looked for in another.
            href={address(screen, ["services", "logs", "traces", "metrics"].includes(screen) ? { from, to } : {})}
            aria-current={at === screen ? "page" : undefined}
            title={`g ${key}`}
          >
            {label}
          </a>
        ))}
      </nav>
      <div class="who">
        <button
          type="button"
          class="small"
          aria-pressed={utc.value}
          onClick={() => (utc.value = !utc.value)}
          title="Times in UTC or in your zone"
        >
          {utc.value ? "UTC" : "local time"}
        </button>
        <select aria-label="Colours" value={scheme.value} onChange={(event) => (scheme.value = event.currentTarget.value)}>
          <option value="">system</option>
          <option value="light">light</option>
          <option value="dark">dark</option>
        </select>
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

const HELP = [
  ["g, then o v f l t m a s", "to overview, services, fleet, logs, traces, metrics, alerts, settings"],
  ["/", "into the query"],
  ["j k", "next and previous row"],
  ["Enter", "open the row"],
  ["Escape", "close"],
  ["?", "this list"],
] as const;

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
