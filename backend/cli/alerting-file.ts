// What `atherops apply -f` reads and `atherops export` writes: YAML, with a list for each kind of thing, such as `rules:`. Invariant: a file
// that is only partly understood is refused as a whole; an alias cannot make a small file large.
import { readFileSync, statSync } from "node:fs";
import { text } from "node:stream/consumers";
import { parseAllDocuments, stringify } from "yaml";
import { Fields, isObject } from "./alerting-fields.ts";
import { Problem } from "./cli-error.ts";

/** A thousand rules are some 500 KiB. */
const MOST_BYTES = 8 * 1024 * 1024;

/** Section, such as `rules`, → what is in it. A section that is nowhere is not in the map. */
export type Sections = Map<string, Fields[]>;

/** `-` is standard input. */
export async function textOf(file: string, stdin: NodeJS.ReadStream): Promise<string> {
  if (file === "-") return await text(stdin);
  try {
    if (statSync(file).size > MOST_BYTES) throw new Problem(`${file}: is larger than ${MOST_BYTES} bytes`);
    return readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new Problem(`${file}: cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
}

/** Adds what a file has to `sections`. `known`: the sections that there are. Throws Problem. */
export function readSections(file: string, yaml: string, known: readonly string[], sections: Sections): void {
  const name = file === "-" ? "standard input" : file;
  for (const document of parseAllDocuments(yaml, { logLevel: "error" })) {
    const [wrong] = [...document.errors, ...document.warnings];
    if (wrong) throw new Problem(`${name}: ${wrong.message.split("\n")[0]?.replace(/:$/, "")}`);
    const content = valueOf(name, () => document.toJS({ maxAliasCount: 100 }) as unknown);
    if (content === null) continue;
    if (!isObject(content)) throw new Problem(`${name}: must have sections such as \`rules:\`, with a list in each`);
    for (const [section, entries] of Object.entries(content)) {
      if (!known.includes(section)) throw new Problem(`${name}: there is no section ${section}: there are ${known.join(", ")}`);
      if (entries !== null && !Array.isArray(entries)) throw new Problem(`${name}: ${section}: must be a list, each entry after a \`-\``);
      const read = (entries ?? []).map((entry: unknown, at) => new Fields(`${name}: ${section}[${at}]`, entry));
      sections.set(section, [...(sections.get(section) ?? []), ...read]);
    }
  }
}

/** Blocks for text of several lines, and no line is broken. */
export function yamlOf(content: object): string {
  return stringify(content, { lineWidth: 0, blockQuote: "literal" });
}

function valueOf<T>(name: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new Problem(`${name}: ${(error as Error).message}`);
  }
}
