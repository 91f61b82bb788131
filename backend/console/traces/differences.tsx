// How slow or failed spans differ from the others: the values of each attribute, with their shares in both, largest difference first. Values
// that restate the condition, such as the status of failed spans, are left out.
import type { ApiResponses } from "../../client/api.ts";
import { Status, Button, Field, visible } from "../parts/index.ts";
import { call, useLoaded, choose, route, formReader, submitBy } from "../state/index.ts";
import { type AnalysisProps, nameOf, Value } from "./analysis.tsx";
import { groupDifferences } from "./difference-groups.ts";

type Difference = ApiResponses["GET /query/traces/differences"][number];

export function Differences({ requestKey, parameters }: AnalysisProps) {
  const slower = route.value.query.get("slower") ?? "";
  const loaded = useLoaded(`${requestKey} ${slower}`, async (signal) => {
    const query = { ...parameters, slower_than_ms: slower || undefined };
    const rows = await call<Difference[]>("/query/traces/differences", { query, signal });
    return { groups: groupDifferences(rows, slower === ""), compared: slower ? `spans ≥ ${slower} ms` : "spans with an error" };
  });
  const { groups = [], compared = "" } = loaded.value.value ?? {};
  return (
    <section class="card differences" aria-label="Differences">
      <form data-unguarded class="filters" onSubmit={submitBy((form) => choose({ slower: formReader(form)("slower") }))}>
        <Field
          label="Compare spans of at least, in ms"
          name="slower"
          inputMode="numeric"
          size={6}
          pattern="\d+(\.\d+)?"
          defaultValue={slower}
        />
        <Button type="submit" text="Compare" />
        <span class="quiet">with faster spans. Leave empty to compare spans with an error.</span>
      </form>
      <Status of={loaded} empty={groups.length === 0 && `No ${compared}, or no differences.`}>
        <p class="quiet difference-key">
          <span class="swatch is-compared" /> share of {compared} <span class="swatch is-others" /> share of other spans
        </p>
        <div class="difference-groups">
          {groups.map(({ name, rows }) => (
            <section key={name} aria-label={nameOf(name)}>
              <h2>
                <bdi>{nameOf(name)}</bdi>
              </h2>
              <ul class="plain-list">
                {rows.map((row) => (
                  <DifferenceRow row={row} compared={compared} key={row.value} />
                ))}
              </ul>
            </section>
          ))}
        </div>
      </Status>
    </section>
  );
}

function DifferenceRow({
  row: { name, value, compared_share: share, others_share: otherShare },
  compared,
}: {
  row: Difference;
  compared: string;
}) {
  return (
    <li>
      <Value name={name} value={value} />
      <span class="difference-bars" title={`${percent(share)} of ${compared}, ${percent(otherShare)} of other spans`}>
        <i class="is-compared" style={{ width: `${share * 100}%` }} />
        <i class="is-others" style={{ width: `${otherShare * 100}%` }} />
      </span>
      <span class="number" aria-label={`${visible(value)}: ${percent(share)} of ${compared}, ${percent(otherShare)} of other spans`}>
        {percent(share)} <span class="quiet">{percent(otherShare)}</span>
      </span>
    </li>
  );
}

function percent(share: number): string {
  return `${Number((share * 100).toPrecision(2))} %`;
}
