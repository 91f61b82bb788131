// The most frequent values of the matching spans (facets). A click on a value searches for it.
import type { ApiResponses } from "../../client/api.ts";
import { Status, visible, Button } from "../parts/index.ts";
import { call, type Query, useLoaded, choose, route } from "../state/index.ts";
import { addAttribute } from "./search.ts";

type Facet = ApiResponses["GET /query/traces/facets"][number];

const SHOWN_VALUES = 8;
/** Attributes that have their own parameters in the address. */
const OWN_FIELDS = ["service", "operation"] as const;

export interface AnalysisProps {
  readonly requestKey: string;
  /** Parameters of GET /query/traces/facets, heatmap and differences. */
  readonly parameters: Query;
}

/** Parameters of an address that searches for spans with this value of a facet; undefined if that is not possible. */
function searchFor(name: string, value: string): Readonly<Record<string, string>> | undefined {
  if (OWN_FIELDS.some((known) => known === name)) return { [name]: value };
  if (name === "status" && value === "ERROR") return { error: "true" };
  if (!name.startsWith("attribute.")) return undefined;
  return { attributes: addAttribute(route.peek().query.get("attributes") ?? "", name.slice("attribute.".length), value) };
}

export const nameOf = (name: string): string => visible(name.replace(/^attribute\./, ""));

export function Value({ name, value }: { name: string; value: string }) {
  return (
    <Button
      class="plain value"
      disabled={searchFor(name, value) === undefined}
      aria-label={`Only ${nameOf(name)} ${visible(value)}`}
      onClick={() => choose(searchFor(name, value) ?? {})}
      text={<bdi>{visible(value) || "(empty)"}</bdi>}
    />
  );
}

interface CountedFacet extends Facet {
  /** Spans of which its values were counted. */
  readonly total: number;
}

/** A service, operation or status that the search chooses keeps its other values: they are counted without that choice. */
async function readFacets(parameters: Query, signal: AbortSignal): Promise<CountedFacet[]> {
  const read = async (query: Query): Promise<CountedFacet[]> => {
    const facets = await call<Facet[]>("/query/traces/facets", { query, signal });
    // Every span has a service.
    const total = facets.find(({ name }) => name === "service")?.spans ?? 0;
    return facets.map((facet) => ({ ...facet, total }));
  };
  const chosen = CHOICES.filter(([, parameter]) => parameters[parameter] !== undefined);
  const [matching, ...others] = await Promise.all([
    read(parameters),
    ...chosen.map(async ([, parameter]) => await read({ ...parameters, [parameter]: undefined })),
  ]);
  return matching.map((facet) => {
    const at = chosen.findIndex(([name]) => name === facet.name);
    return others[at]?.find(({ name }) => name === facet.name) ?? facet;
  });
}

/** Facets and the parameters that choose one of their values. */
const CHOICES = [
  ["service", "service"],
  ["operation", "operation"],
  ["status", "error"],
] as const;

export function Facets({ requestKey, parameters }: AnalysisProps) {
  const loaded = useLoaded(requestKey, async (signal) => await readFacets(parameters, signal));
  const facets = loaded.value.value ?? [];
  return (
    <aside class="field-list" aria-label="Facets">
      <Status of={loaded} empty={facets.length === 0 && "No spans."}>
        {facets.map(({ name, values, total }) => (
          <details key={name} open={!name.startsWith("attribute.")}>
            <summary>
              <bdi>{nameOf(name)}</bdi>
            </summary>
            <ul>
              {values.slice(0, SHOWN_VALUES).map(({ value, count }) => (
                <li key={value}>
                  <Value name={name} value={value} />
                  <span class="quiet number">{count.toLocaleString("en")}</span>
                  <span class="share" style={{ width: `${(count / total) * 100}%` }} />
                </li>
              ))}
            </ul>
          </details>
        ))}
      </Status>
    </aside>
  );
}
