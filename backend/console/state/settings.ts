// What the page is told before anybody has logged in.
import { call } from "./api.ts";
import { type Loaded, useLoaded } from "./loaded.ts";

export interface ConsoleSettings {
  readonly hasSingleSignOn: boolean;
  /** `npm start` started the backend. */
  readonly isLocalStart: boolean;
}

export function useSettings(): Loaded<ConsoleSettings> {
  return useLoaded("settings", async (signal) => await call<ConsoleSettings>("/console/settings.json", { signal }));
}
