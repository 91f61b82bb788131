// Shows what this machine's agent is still waiting for, with `npm start`.
import { useLoaded, call, useSettings } from "../state/index.ts";
import { visible } from "../parts/text.ts";

const REFRESH_MS = 2000;

export function ThisMachine({ onReady }: { onReady: () => void }) {
  return useSettings().value.value?.isLocalStart ? <WaitsFor onReady={onReady} /> : null;
}

function WaitsFor({ onReady }: { onReady: () => void }) {
  const loaded = useLoaded(
    "start",
    async (signal) => {
      const state = await call<{ readonly waits_for: string | null }>("/console/start.json", { signal });
      if (loaded.value.peek()?.waits_for && !state.waits_for) onReady();
      return state;
    },
    { refreshMs: REFRESH_MS },
  );
  const reason = loaded.value.value?.waits_for;
  return reason ? (
    <p class="card" role="status">
      This machine's agent is starting. It waits for its collector: <bdi>{visible(reason)}</bdi>
    </p>
  ) : null;
}
