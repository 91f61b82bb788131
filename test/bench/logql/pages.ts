// Extracts LogQL examples and log lines from the Markdown of Loki's documentation. Invariant: every block that is marked as LogQL is an
// example, even if it does not parse; other text is an example only if Loki's own parser accepts it.

export interface Page {
  readonly examples: readonly string[];
  /** Log lines that the page shows. */
  readonly lines: readonly string[];
}

interface Block {
  readonly language: string;
  readonly text: string;
}

/** Selector for an example that is only a stage. */
const STAGE_OF = '{job="docs"} ';
const SHELLS = new Set(["bash", "shell", "console"]);
const LINES = new Set(["log", "logfmt"]);

export async function readPage(markdown: string, isLogql: (query: string) => Promise<boolean>): Promise<Page> {
  const { blocks, rest } = splitBlocks(markdown);
  const examples: string[] = [];
  const lines: string[] = [];
  for (const block of [...blocks, ...spansOf(rest)]) {
    if (LINES.has(block.language)) lines.push(...linesOf(block.text));
    else if (block.language === "json") lines.push(...documentOf(block.text));
    else {
      const found = await examplesOf(block, isLogql);
      examples.push(...found);
      if (block.language === "" && found.length === 0) lines.push(...linesOf(block.text));
    }
  }
  return { examples, lines };
}

function splitBlocks(markdown: string): { blocks: Block[]; rest: string } {
  const blocks: Block[] = [];
  const rest = markdown.replaceAll(
    /^([ \t]*)```([a-z]*)[ \t]*\n([\s\S]*?)^[ \t]*```[ \t]*$/gm,
    (_, indent: string, language: string, text: string) => {
      blocks.push({ language, text: text.replaceAll(new RegExp(`^${indent}`, "gm"), "").trim() });
      return "";
    },
  );
  return { blocks, rest };
}

/** Between one backtick or two. */
function spansOf(text: string): Block[] {
  return [...text.matchAll(/``\s*(.+?)\s*``|`([^`\n]+)`/g)].map(([, doubled, plain]) => ({
    language: "span",
    text: doubled ?? plain ?? "",
  }));
}

function linesOf(text: string): string[] {
  return text.split("\n").flatMap((line) => (line.trim() === "" ? [] : [line.trim()]));
}

/** On one line, as a program writes it. */
function documentOf(text: string): string[] {
  try {
    return [JSON.stringify(JSON.parse(text))];
  } catch {
    return linesOf(text);
  }
}

async function examplesOf({ language, text }: Block, isLogql: (query: string) => Promise<boolean>): Promise<string[]> {
  if (language === "template")
    return linesOf(text).map((line) => (line.startsWith("`") ? `${STAGE_OF}| line_format ${line}` : whole(line)));
  const parts =
    SHELLS.has(language) && !text.startsWith("{") ? [...text.matchAll(/'([^']*\{[^']+)'/g)].map(([, part = ""]) => part) : [text];
  const found: string[] = [];
  for (const part of parts) {
    const query = whole(part);
    if (looksLikeLogql(query) && (await isLogql(query))) found.push(query);
    else if (language === "span") continue;
    else {
      for (const line of linesOf(part).map(whole)) {
        if (language === "logql" || (looksLikeLogql(line) && (await isLogql(line)))) found.push(line);
      }
    }
  }
  return found;
}

/** A stage is one of a query. */
function whole(text: string): string {
  return /^(?:\||!=|!~)/.test(text) ? STAGE_OF + text : text;
}

function looksLikeLogql(text: string): boolean {
  return /\{[^{}]*[=~][^{}]*\}/.test(text) || text.startsWith("vector(");
}
