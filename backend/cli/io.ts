// What a run of the admin client touches, so that a test can give it another terminal, folder or network.
import type { ClientSettings } from "./settings.ts";

export interface World {
  settings: ClientSettings;
  stdin: NodeJS.ReadStream;
  stdout: NodeJS.WritableStream;
  stderr: NodeJS.WritableStream;
  /** Ends a live tail. */
  signal?: AbortSignal;
  fetch?: typeof fetch;
}
