// Between the identity and its state on this node (state/state-dir.ts): waits for the folder, keeps any other identity from sending it, and
// notices when the identity has become another. Invariant: no credential leaves here but one that the folder in use is marked with.
import { pause } from "../../common/loop.ts";
import type { Credential, CredentialSource } from "../credentials/store.ts";
import type { AgentIdentity } from "../identity/identity.ts";
import type { Log } from "../log.ts";
import type { ClaimedState, StateDir, StateStatus } from "./state-dir.ts";

export interface ClaimOptions {
  readonly stateDir: StateDir;
  readonly identity: Pick<AgentIdentity, "current" | "isKnown">;
  readonly log: Log;
  /** Called with each news. */
  readonly report: (status: StateStatus) => void;
}

const CHECK_EVERY_MS = 250;

/** Resolves with the folder of this identity, or undefined when `stopped`. Says once why it waits. Throws StateDirError. */
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
          "another identity has left its state on this node: it is neither sent nor removed",
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

/** The identity, but only while it is the one whose state is in use. */
export function credentialsFor(state: ClaimedState, identity: CredentialSource): CredentialSource {
  const accepted = (credential: Credential | undefined): Credential | undefined =>
    credential && state.accepts(credential) ? credential : undefined;
  return {
    current: () => accepted(identity.current()),
    refresh: async (reason) => accepted(await identity.refresh(reason)),
    noteKeyAge: (credential, days) => identity.noteKeyAge?.(credential, days),
  };
}

/** Until `stopped`, or until the identity is one that may not send what is in this folder, or turns out to be none. */
export async function untilAnother(
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
