// A session that ended in the middle of work: calls wait here until somebody has logged in again.
import { signal } from "@preact/signals";

/** A call was refused, and waits for a login. */
export const hasEnded = signal(false);

let waiting: (() => void)[] = [];

/** Resolves after the next login; rejects when the call itself is given up. */
export async function loggedInAgain(abort?: AbortSignal): Promise<void> {
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
  hasEnded.value = false;
  for (const goOn of waiting.splice(0)) goOn();
}
