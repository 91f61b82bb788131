// Handles a session that ends while the user works: calls wait here until the user has logged in again.
import { signal } from "@preact/signals";

/** True while a refused call waits for a login. */
export const hasEnded = signal(false);

let waiting: (() => void)[] = [];
let logins = 0;

/** The number of logins so far; read it before a call is made. */
export function loginsSoFar(): number {
  return logins;
}

/**
 * Resolves after the next login; rejects when the call itself is aborted. `before`: `loginsSoFar()` before the call. If a login happened
 * since then, the refusal belongs to the earlier session and needs no other login.
 */
export async function loggedInAgain(before: number, abort?: AbortSignal): Promise<void> {
  if (before !== logins) return;
  hasEnded.value = true;
  await new Promise<void>((goOn, fail) => {
    waiting.push(goOn);
    const leave = (): void => {
      waiting = waiting.filter((other) => other !== goOn);
      fail(abort?.reason as Error);
    };
    if (abort?.aborted) leave();
    else abort?.addEventListener("abort", leave, { once: true });
  });
}

export function continueAll(): void {
  logins++;
  hasEnded.value = false;
  for (const goOn of waiting.splice(0)) goOn();
}
