// A message as JSON, and what is wrong with one of its fields. For every format that is read as OTLP/JSON.
import { ApiError } from "../errors.ts";

/**
 * A field of the document is invalid. Each caller adds its part of the path. It has no stack trace: a body can have millions of invalid
 * records, and writing the trace of each would take longer than decoding them.
 */
export class FieldError extends Error {
  #path: string;
  readonly problem: string;
  constructor(path: string, problem: string) {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super();
    Error.stackTraceLimit = stackTraceLimit;
    this.#path = path;
    this.problem = problem;
  }

  within(parent: string): this {
    this.#path = this.#path === "" || this.#path.startsWith("[") ? parent + this.#path : `${parent}.${this.#path}`;
    return this;
  }

  /** The path and the problem. */
  get text(): string {
    const path = this.#path.length > 300 ? `${this.#path.slice(0, 300)}…` : this.#path;
    return path === "" ? this.problem : `${path}: ${this.problem}`;
  }

  toApiError(): ApiError {
    return new ApiError("invalid_payload", this.text);
  }
}

export type Json = Record<string, unknown>;

export function asObject(value: unknown, path: string): Json {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Json;
  throw new FieldError(path, unreadableReason(value) ?? "must be an object");
}

const UNREADABLE = "unreadable";

/** In the place of a message that cannot be read. No message is an array, so every reader refuses it, with this reason. */
export function unreadableMessage(reason: string): unknown {
  return [UNREADABLE, reason.slice(0, 200)];
}

export function unreadableReason(value: unknown): string | undefined {
  return Array.isArray(value) && value[0] === UNREADABLE && typeof value[1] === "string" ? value[1] : undefined;
}
