// Handles a session that expires while the user works: requests wait here until the user has logged in again.
import { signal } from "@preact/signals";

/** True while a request waits for a login. */
export const isSessionExpired = signal(false);

let waiting: (() => void)[] = [];
let logins = 0;

/** Number of logins so far. Read it before a request is sent. */
export function loginCount(): number {
  return logins;
}

/**
 * Resolves after the next login; rejects if the request is aborted. `before`: `loginCount()` before the request. If a login happened since
 * then, the 401 belongs to the earlier session, and no other login is needed.
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
