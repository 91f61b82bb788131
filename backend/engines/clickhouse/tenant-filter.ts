// Lets the engine apply the tenant's condition to ClickHouse reads: each read carries the setting `additional_table_filters`, so a
// statement whose author forgot `org_id = …` still reads one organisation's rows. Invariant: a statement that could bypass the setting (its
// own SETTINGS clause, another database, a table function, a dictionary) is refused before it is sent.
import type { LabelLimits } from "../../admission/limited-labels.ts";
import { labelCondition } from "./label-filter.ts";
import { and, Sql, sql } from "./sql.ts";

/** Every table with rows of organisations. `tenant-filter.engine.test.ts` compares the list with the schema. */
export const TENANT_TABLES = ["logs", "spans", "span_operations", "span_minutes", "service_edges", "exemplars"] as const;

/**
 * The setting, for a SETTINGS clause. The primary index still prunes by it. `database`: set if the statement reads Distributed tables; the
 * database of each shard's own tables, because the shards apply the condition. `limits`: of a reader who may not see all rows.
 */
export function tenantFilter(orgId: string, database?: string, limits?: LabelLimits): Sql {
  const tenant = sql`org_id = ${orgId}`;
  const prefix = database === undefined ? "" : `${database}.`;
  const conditionOf = (table: string): Sql => (limits ? and([tenant, labelCondition(limits, table)]) : tenant);
  const filters = TENANT_TABLES.map((table) => sql`${prefix + table}: ${conditionOf(table).text}`.text);
  return new Sql(`additional_table_filters = {${filters.join(", ")}}`);
}

/** Throws if the filter would not apply: such a statement, or a missing organisation, is a bug here, never the fault of a request. */
export function requireFiltered(orgId: string, statement: Sql): void {
  if (typeof orgId !== "string" || orgId === "") throw new Error("a tenant's read has no organisation");
  const problem = new StatementCheck().problemOf(statement.text);
  if (problem !== undefined) throw new Error(`a tenant's read must not use ${problem}`);
}

/**
 * A literal starts with a quote, a quoted name with a backtick. The others are words, and the punctuation that decides what a word means.
 */
const TOKEN = /'|[A-Za-z_]\w*|[()[\],.;`"$#]|--|\/\*/g;
const WORD = /^\w+$/;
/** Comments, a second statement, names in double quotes and heredocs, which none of our statements has. */
const UNUSED = new Set([";", '"', "$", "#", "--", "/*"]);
/** Other settings, other outputs, and functions that read a table, a dictionary or a file by name. */
const DENIED = /^(settings|into|format|file|joinget\w*|dict\w*|hascolumnintable)$/;
const AFTER_SOURCES = new Set("where prewhere group order having limit union except intersect window qualify".split(" "));
/** The only allowed table function; it generates numbers. */
const NUMBERS = "numbers";
const SUBQUERY = new Set(["select", "with"]);

/** The kind of token that must come next. */
type Expected = "source" | "subquery" | "set" | "set member" | undefined;
const INSIDE: Readonly<Record<string, Expected>> = { source: "subquery", subquery: "subquery", set: "set member" };

/** The state within one pair of parentheses. */
interface Level {
  expected: Expected;
  isInSources: boolean;
}

/** Reads the tokens of a statement once. It knows enough of the grammar to find every table that a statement names. */
class StatementCheck {
  readonly #sources = new Set<string>(TENANT_TABLES);
  readonly #levels: Level[] = [];
  #level: Level = { expected: "subquery", isInSources: false };
  /** The last three tokens, newest first. */
  #recent: readonly [string, string, string] = ["", "", ""];
  #isAfterSource = false;

  problemOf(text: string): string | undefined {
    TOKEN.lastIndex = 0;
    for (let found = TOKEN.exec(text); found; found = TOKEN.exec(text)) {
      const token = found[0].toLowerCase();
      const problem = this.#take(token);
      if (problem !== undefined) return problem;
      if (token === "'" || token === "`") TOKEN.lastIndex = endOfQuoted(text, found.index);
      this.#recent = [token, this.#recent[0], this.#recent[1]];
    }
    return undefined;
  }

  #take(token: string): string | undefined {
    if (UNUSED.has(token) || DENIED.test(token)) return token;
    const [previous, , name] = this.#recent;
    if (this.#isAfterSource && (token === "." || (token === "(") !== (previous === NUMBERS))) return `${previous}${token}`;
    this.#isAfterSource = false;
    // WITH name AS (SELECT …)
    if (token === "select" && previous === "(" && this.#recent[1] === "as") this.#sources.add(name);
    const { expected } = this.#level;
    this.#level.expected = undefined;
    if (token === "(") {
      this.#levels.push(this.#level);
      this.#level = { expected: INSIDE[expected ?? ""], isInSources: false };
      return undefined;
    }
    return problemOfExpected(expected, token, this.#sources) ?? this.#follow(expected, token);
  }

  #follow(expected: Expected, token: string): undefined {
    if (expected === "source") this.#isAfterSource = true;
    else if (token === ")") this.#level = this.#levels.pop() ?? this.#level;
    else if (token === ",") this.#level.expected = this.#level.isInSources ? "source" : undefined;
    else if (token === "in") this.#level.expected = "set";
    else if (token === "from" || (token === "join" && this.#recent[0] !== "array")) {
      this.#level.isInSources = true;
      this.#level.expected = "source";
    } else if (AFTER_SOURCES.has(token) || token === "join") this.#level.isInSources = false;
  }
}

function problemOfExpected(expected: Expected, token: string, sources: ReadonlySet<string>): string | undefined {
  if (expected === "source") return sources.has(token) || token === NUMBERS ? undefined : `the table ${token}`;
  if (expected === "subquery") return SUBQUERY.has(token) ? undefined : `${token} where a SELECT is needed`;
  // `IN name` and `IN (name)` read the table of that name.
  if (expected !== undefined && (WORD.test(token) || token === "`") && !SUBQUERY.has(token)) return `the table ${token} after IN`;
  return undefined;
}

/**
 * The offset after the literal or name that the quote at `start` begins. A backslash escapes; a doubled quote counts as an end and a new
 * beginning.
 */
function endOfQuoted(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === text[start]) return at + 1;
  }
  return text.length;
}
