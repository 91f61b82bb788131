// Handles a session that ends while the user works: calls wait here until the user has logged in again.
import { signal } from "@preact/signals";

/** True while a refused call waits for a login. */
export const isSessionExpired = signal(false);

let waiting: (() => void)[] = [];
let logins = 0;

/** The number of logins so far; read it before a call is made. */
export function loginCount(): number {
  return logins;
}

/**
 * Resolves after the next login; rejects when the call itself is aborted. `before`: `loginCount()` before the call. If a login happened
 * since then, the refusal belongs to the earlier session and needs no other login.
 */
export async function waitForLogin(before: number, abort?: AbortSignal): Promise<void> {
  if (before !== logins) return;
  isSessionExpired.value = true;
  await new Promise<void>((resume, fail) => {
    waiting.push(resume);
    const leave = (): void => {
      waiting = waiting.filter((other) => other !== resume);
      fail(abort?.reason as Error);
    };
    if (abort?.aborted) leave();
    else abort?.addEventListener("abort", leave, { once: true });
  });
}

export function resumeCalls(): void {
  logins++;
  isSessionExpired.value = false;
  for (const resume of waiting.splice(0)) resume();
}
