// What Loki's templates have and this backend refuses by name. docs/reference/logql.md is made from these tables; read-query.test.ts compares
// them with the functions of Loki 3.7.

/** Functions that read a clock or a time zone database, make structures, or write for a browser → what to write instead. */
export const REFUSED_FUNCTIONS: Readonly<Record<string, string>> = {
  now: "a query over stored records gives the same answer at any time; use __timestamp__",
  toDate: "use __timestamp__ or unixToTime",
  toDateInZone: "use __timestamp__ or unixToTime; times are in UTC",
  fromJson: "use the stage json",
  call: "use the functions of this page",
  html: "line_format answers text; escape it where it is shown",
  js: "line_format answers text; escape it where it is shown",
  index: "name the label, such as {{.user}}",
  slice: "use substr or trunc",
  urlquery: "use urlencode",
};

/** Actions of Go's templates. A loop or a template that calls itself has no bound in the length of the query. */
export const REFUSED_ACTIONS = ["range", "with", "define", "template", "block", "break", "continue"] as const;
export const INSTEAD_OF_ACTIONS = "write {{if}}, or one field after the other";

export function isRefusedAction(word: string): boolean {
  return (REFUSED_ACTIONS as readonly string[]).includes(word);
}
