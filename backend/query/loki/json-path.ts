// Paths of the stage json, such as request.headers["User-Agent"] or servers[0]. Invariant: what is read is a list of names and places.
import { wrongQuery } from "./literals.ts";

export type JsonPath = readonly (string | number)[];

const STEP = /^(?:\.?([a-zA-Z_]\w*)|\[\s*(?:(\d{1,9})|"((?:[^"\\]|\\.)*)")\s*\])/;

/** Throws ApiError invalid_parameter. */
export function parsePath(path: string): JsonPath {
  const steps: (string | number)[] = [];
  let rest = path;
  while (rest !== "") {
    const [step, name, index, key] = STEP.exec(rest) ?? [];
    const isBare = name !== undefined && (steps.length === 0) === !step?.startsWith(".");
    if (step === undefined || (name !== undefined && !isBare)) break;
    steps.push(name ?? (index === undefined ? (key as string).replaceAll(/\\(.)/g, "$1") : Number(index)));
    rest = rest.slice(step.length);
  }
  if (rest !== "" || steps.length === 0) throw wrongQuery(`json: cannot parse expression [${path.slice(0, 200)}]`);
  return steps;
}
