// When a rule was pending or firing, in the last day.
import type { ApiResponses } from "../../client/api.ts";
import { useLoaded, timestampText, span, call } from "../state/index.ts";
import { formatPairs, RULES } from "./console-rule.ts";
import { Status, visible } from "../parts/index.ts";

type Period = ApiResponses["GET /alerting/rules/{id}/history"][number];

const DAY_MS = 86_400_000;

export function RuleHistory({ id }: { id: string }) {
  const loaded = useLoaded(`history ${id}`, async (signal) => {
    const periods = await call<Period[]>(`${RULES}/${id}/history`, { query: { limit: 200 }, signal });
    return { periods, nowMs: Date.now() };
  });
  const { periods = [], nowMs = 0 } = loaded.value.value ?? {};
  const xOf = (at: string): number => Math.max(0, 1000 - ((nowMs - Date.parse(at)) / DAY_MS) * 1000);
  return (
    <section aria-labelledby="history">
      <h3 id="history">Last 24 hours</h3>
      <Status of={loaded} empty={periods.length === 0 && "Inactive in the last 24 hours."}>
        {periods.length > 0 && (
          <>
            <svg class="strip" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label={`${periods.length} periods`}>
              {periods.map((period, at) => (
                <rect
                  key={at}
                  class={`fill ${period.state === "firing" ? "is-error" : "is-warn"}`}
                  x={xOf(period.start)}
                  y={0}
                  width={Math.max(2, xOf(period.end) - xOf(period.start))}
                  height={20}
                />
              ))}
            </svg>
            <ul class="periods">
              {periods.slice(0, 20).map((period, at) => (
                <li key={at}>
                  <span class={`level ${period.state === "firing" ? "is-error" : "is-warn"}`}>{period.state}</span>{" "}
                  {timestampText(period.start)} for {span(Date.parse(period.end) - Date.parse(period.start))}{" "}
                  <bdi class="quiet">{visible(formatPairs(period.labels).replaceAll("\n", " "))}</bdi>
                </li>
              ))}
            </ul>
          </>
        )}
      </Status>
    </section>
  );
}
