// Recognises LogQL in a log query, which is otherwise written in the language of docs/log-query.md. The backend and the console share these
// rules, so that the console edits and charts a query as the backend reads it.

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
