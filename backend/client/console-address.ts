// Builds addresses within the console (`#/screen/id?parameters`), for the console itself and for every answer that links to it: changes,
// the command line, MCP. Invariant: a fragment is never sent to a server, so a link contains no secret that a proxy would log.

/** Parameter values; a list if a parameter occurs several times. */
export type ConsoleQuery = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Omits empty and undefined values. */
export function consoleAddress(screen: string, query: ConsoleQuery = {}, id?: string): string {
  const parameters = Object.entries(query).flatMap(([name, values]) =>
    [values ?? []].flat().flatMap((value): [string, string][] => (value ? [[name, value]] : [])),
  );
  const search = parameters.length > 0 ? `?${new URLSearchParams(parameters).toString()}` : "";
  return `#/${encodeURIComponent(screen)}${id ? `/${encodeURIComponent(id)}` : ""}${search}`;
}
