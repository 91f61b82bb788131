// Claims the state on this node (state/state-dir.ts) for an identity, and detects when the identity changes. Invariant: a credential is
// returned only if the folder in use is marked with its identity.
import { pause } from "../../common/loop.ts";
import type { Credential, CredentialSource } from "../credentials/credential-store.ts";
import type { AgentIdentity } from "../identity/identity.ts";
import type { Log } from "../log.ts";
import type { ClaimedState, StateDir, StateStatus } from "./state-dir.ts";

export interface ClaimOptions {
  readonly stateDir: StateDir;
  readonly identity: Pick<AgentIdentity, "current" | "isKnown">;
  readonly log: Log;
  /** Called at each change. */
  readonly report: (status: StateStatus) => void;
}

const CHECK_EVERY_MS = 250;

/** Waits for the folder of this identity and claims it; undefined if `stopped`. Logs once why it waits. Throws StateDirError. */
export async function claimState(
  { stateDir, identity, log, report }: ClaimOptions,
  stopped: AbortSignal,
): Promise<ClaimedState | undefined> {
  let logged: string | undefined;
  while (!stopped.aborted) {
    const claimed = stateDir.claim({ credential: identity.current(), isKnown: identity.isKnown() });
    if (typeof claimed !== "string") {
      const others = stateDir.others(claimed.folder);
      report({ folder: claimed.folder, owner: claimed.owner, waits: undefined, others });
      for (const { folder, id, bytes } of others)
        log.warn(
          { event: "state.foreign", folder, owner: id, queue_bytes: bytes },
          "another identity left its state on this node; it is neither sent nor removed",
        );
      return claimed;
    }
    if (claimed !== logged) {
      log.warn({ event: "state.unavailable" }, claimed);
      report({ folder: undefined, owner: undefined, waits: claimed, others: stateDir.others(undefined) });
    }
    logged = claimed;
    await pause(CHECK_EVERY_MS, stopped);
  }
  return undefined;
}

/** Returns the identity's credentials, but only while its state is in use. */
export function credentialsFor(state: ClaimedState, identity: CredentialSource): CredentialSource {
  const accepted = (credential: Credential | undefined): Credential | undefined =>
    credential && state.accepts(credential) ? credential : undefined;
  return {
    current: () => accepted(identity.current()),
    refresh: async (reason) => accepted(await identity.refresh(reason)),
    noteKeyAge: (credential, days) => identity.noteKeyAge?.(credential, days),
  };
}

/** Resolves when `stopped`, or when the identity may no longer send the state in this folder. */
export async function waitForIdentityChange(
  state: ClaimedState,
  identity: Pick<AgentIdentity, "current" | "isKnown">,
  stopped: AbortSignal,
): Promise<void> {
  while (!stopped.aborted) {
    const credential = identity.current();
    if (credential ? !state.accepts(credential) : identity.isKnown() && state.owner !== undefined) return;
    await pause(CHECK_EVERY_MS, stopped);
  }
}
