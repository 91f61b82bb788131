// Parameters of Alertmanager's API. Invariant: one that is not understood is refused, never ignored.
import type { FastifyRequest } from "fastify";
import { ApiError } from "../../errors.ts";
import { checkMatchers, compileMatchers, type Matcher, readMatcher } from "../model/matchers.ts";

/** Of `filter`, which is repeatable. Throws ApiError invalid_parameter. */
export function readFilters(request: FastifyRequest): Matcher[] {
  const matchers = parametersOf(request).getAll("filter").map(filterOf);
  asParameter("filter", () => checkMatchers(matchers, { anyAlert: true }));
  return matchers;
}

/** `receiver`: an expression for the whole name of one. */
export function readReceiver(request: FastifyRequest): (name: string) => boolean {
  const value = parametersOf(request).get("receiver");
  if (!value) return () => true;
  const matchers = [{ name: "receiver", value, isRegex: true, isEqual: true }];
  asParameter("receiver", () => checkMatchers(matchers, { anyAlert: true }));
  const holds = compileMatchers(matchers);
  return (receiver) => holds({ receiver });
}

/** As Go reads booleans; true where it is left out. */
export function readFlag(request: FastifyRequest, name: string): boolean {
  const value = parametersOf(request).get(name) ?? "true";
  if (!/^(?:true|false|[01tf])$/i.test(value)) throw new ApiError("invalid_parameter", `${name}: must be true or false`);
  return /^[1t]/i.test(value);
}

function filterOf(text: string): Matcher {
  const matcher = readMatcher(text);
  if (!matcher)
    throw new ApiError("invalid_parameter", 'filter: must be a matcher such as alertname="Down" or severity=~"critical|warning"');
  return matcher;
}

function asParameter(name: string, check: () => void): void {
  try {
    check();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new ApiError("invalid_parameter", `${name}: ${error.message}`, { cause: error });
  }
}

function parametersOf({ url }: FastifyRequest): URLSearchParams {
  const at = url.indexOf("?");
  return new URLSearchParams(at < 0 ? "" : url.slice(at + 1));
}
