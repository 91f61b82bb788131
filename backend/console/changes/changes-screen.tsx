// What changed in the chosen range, compared with one before it, most important first. Invariant: a part that could not be compared is named,
// so an empty list means that nothing changed.
import { Bar, Chip, NameLink, Status, type Column, Table, Select, counted, visible, useScreenRange } from "../parts/index.ts";
import type { ApiResponses } from "../../client/api.ts";
import { call, useLoaded, choose, route, currentRange, rangeQuery, timestampText, fragmentOf } from "../state/index.ts";

type Changes = ApiResponses["GET /query/changes"];
type Change = Changes["changes"][number];

const COMPARED_WITH = [
  ["before", "compared with the time before"],
  ["yesterday", "compared with yesterday"],
  ["last_week", "compared with last week"],
] as const;

const COLUMNS: readonly Column<Change>[] = [
  { head: "severity", cell: ({ severity }) => <Chip tone={severity === "problem" ? "error" : undefined} text={severity} /> },
  { head: "what", kind: "name", cell: ({ title, link }) => <NameLink href={fragmentOf(link)} text={title} /> },
  { head: "kind", class: "word", cell: ({ kind }) => kind },
  { head: "since", kind: "timestamp", cell: ({ since }) => (since === undefined ? "" : timestampText(since)) },
];

export function ChangesScreen() {
  const { query } = route.value;
  const { refresh, rangeKey } = useScreenRange();
  const comparedWith = COMPARED_WITH.find(([name]) => name === query.get("with"))?.[0] ?? "before";
  const service = query.get("service") ?? undefined;
  const key = `${rangeKey} ${comparedWith} ${service ?? ""}`;
  const loaded = useLoaded(key, async (signal) => {
    const parameters = { ...rangeQuery(currentRange()), compare_with: comparedWith, service, limit: 50 };
    return await call<Changes>("/query/changes", { query: parameters, signal });
  });
  const { changes = [], missing = [], compared_with: before } = loaded.value.value ?? {};
  const problems = changes.filter(({ severity }) => severity === "problem").length;
  return (
    <section class="screen" aria-labelledby="title">
      <Bar title="Changes" onNow={refresh}>
        <Select aria-label="compared with" value={comparedWith} of={COMPARED_WITH} onChoose={(name) => choose({ with: name })} />
        {service !== undefined && (
          <a href="#" onClick={(event) => (event.preventDefault(), choose({ service: undefined }))}>
            of <bdi>{visible(service)}</bdi> only: show all
          </a>
        )}
      </Bar>
      <Status of={loaded}>
        <p role="status">
          {counted(changes.length, "change")}
          {problems > 0 && (
            <>
              , <strong class="level is-error">{counted(problems, "problem")}</strong>
            </>
          )}
          {before && `, compared with ${timestampText(before.start)} to ${timestampText(before.end)}`}
        </p>
        {[...Map.groupBy(missing, ({ reason }) => reason)].map(([reason, parts]) => (
          <p class="quiet" key={reason}>
            Not compared: {parts.map(({ part }) => part).join(", ")}. {visible(reason.replace(/^[a-z]/, (first) => first.toUpperCase()))}.
          </p>
        ))}
        {changes.length === 0 ? (
          <div class="empty">
            {missing.every(({ part }) => part === "audit log")
              ? "Nothing changed that is more than chance. Shorten the range, or compare it with yesterday."
              : "Nothing changed in what was compared."}
          </div>
        ) : (
          <Table title="Changes, most important first" rows={changes} columns={COLUMNS} keyOf={({ kind, title }) => `${kind} ${title}`} />
        )}
      </Status>
    </section>
  );
}
