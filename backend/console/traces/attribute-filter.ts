// The attribute field of the trace search: `name=value` or `name="a value"`, separated by spaces. Invariant: what is not understood is an Error
// with an example, because a condition that is left out would find everything.
export type AttributeFilter = readonly (readonly [key: string, value: string])[];

const PAIR = /^([^\s=<>!"]+)=(?:"([^"]*)"|([^\s"]*))(?=\s|$)/;

/** Throws an Error for the reader. */
export function readAttributes(text: string): AttributeFilter {
  const pairs: [string, string][] = [];
  for (let rest = text.trim(); rest !== ""; rest = rest.trimStart()) {
    const [whole, key, quoted, plain] = PAIR.exec(rest) ?? [];
    if (whole === undefined || key === undefined) throw new Error(explained(rest.split(/\s/)[0] ?? ""));
    pairs.push([key, quoted ?? plain ?? ""]);
    rest = rest.slice(whole.length);
  }
  return pairs;
}

function explained(word: string): string {
  const shown = word.slice(0, 60);
  if (/[<>!]/.test(word)) return `${shown}: attributes are compared for equality only; for example http.response.status_code=502`;
  return `${shown}: write name=value, for example http.route=/cart or user="Ada Lovelace"`;
}

/** One pair as it is typed; undefined if it cannot be. */
export function writtenAttribute(key: string, value: string): string | undefined {
  const text = `${key}=${/^[^\s"]*$/.test(value) ? value : `"${value}"`}`;
  return PAIR.exec(text)?.[0] === text ? text : undefined;
}
