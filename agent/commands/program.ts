// Which of the two agents runs: the same code under two names.
import type { Identity } from "../settings.ts";

export interface Program {
  readonly identity: Identity;
  readonly program: string;
  readonly version: string;
}
