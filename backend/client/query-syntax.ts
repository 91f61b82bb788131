// Recognises LogQL in a log query, which is otherwise written in the language of docs/log-query.md, and reports where brackets or quotes of
// a PromQL expression do not match: the engine's own message names only the token that it did not expect. The backend and the console share
// the rules for LogQL, so that the console edits and charts a query as the backend reads it.

/** A text that begins with `{`, such as JSON, has no name and operator after it. */
const STARTS_WITH_SELECTOR = /^\s*\{\s*[A-Za-z_]\w*\s*[=!]/;
const PARTS_OF_METRIC_QUERY = [/^\s*[a-z_]+\s*(?:(?:by|without)\s*)?\(/, /\{\s*[A-Za-z_]\w*\s*[=!]/, /\[\d+(?:ms|[smhdwy])/];

/** Whether the query is LogQL that lists records. */
export function isLogQl(query: string): boolean {
  return STARTS_WITH_SELECTOR.test(query);
}

/** Whether the query is a metric query of LogQL, which returns series instead of records. */
export function isMetricOfLogQl(query: string): boolean {
  return PARTS_OF_METRIC_QUERY.every((part) => part.test(query));
}

const CLOSING: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };

/** The engine's message for an expression that it cannot parse, or what is missing if brackets or quotes do not match. */
export function explainSyntax(query: string, message: string): string {
  const open: { char: string; column: number }[] = [];
  for (let at = 0; at < query.length; at++) {
    const char = query[at] ?? "";
    if (`"'\``.includes(char)) {
      const end = closingQuote(query, at);
      if (end === undefined) return `the ${char} at column ${at + 1} is not closed`;
      at = end;
    } else if (char in CLOSING) open.push({ char, column: at + 1 });
    else if (")]}".includes(char)) {
      const last = open.pop();
      if (!last) return `the ${char} at column ${at + 1} closes nothing`;
      if (CLOSING[last.char] !== char) return `the ${last.char} at column ${last.column} is closed by the ${char} at column ${at + 1}`;
    }
  }
  const last = open.at(-1);
  if (last) return `a ${CLOSING[last.char]} is missing at the end, for the ${last.char} at column ${last.column}`;
  return message.replace(/unexpected token ""/, "the expression ends too early");
}

function closingQuote(query: string, start: number): number | undefined {
  for (let at = start + 1; at < query.length; at++) {
    if (query[at] === "\\" && query[start] !== "`") at++;
    else if (query[at] === query[start]) return at;
  }
  return undefined;
}
