// Splits an OTLP document into parts that batch-reader.ts parses one after the other: a resource, a scope, a few records at a time.
// Invariants: the whole document is validated before any part is parsed; the amount that is parsed at once is bounded, whatever the
// document contains; unused fields are never parsed.
import { isUtf8 } from "node:buffer";
import { ApiError } from "../../errors.ts";
import { MAX_RESOURCES_AND_SCOPES, MAX_TOKENS_AT_ONCE } from "../ingest-limits.ts";
import { GIVEN_TWICE } from "../../../common/otlp-metrics/json-members.ts";
import { JsonScanner } from "./json-scanner.ts";
import { jsonNameOf } from "./field-names.ts";
import { FieldError } from "../json-message.ts";

/** The names of the three nested lists of a signal's document. */
export interface BatchShape {
  readonly resources: string;
  readonly scopes: string;
  readonly records: string;
}

export interface Slice {
  readonly start: number;
  readonly end: number;
  /** It may contain integers that a double would round. */
  readonly mayRound: boolean;
}

/** Consecutive records, including the commas between them. */
export interface Chunk extends Slice {
  readonly count: number;
  /** Why the record, the only one of the chunk, cannot be stored. */
  readonly fault?: FieldError;
}

interface ScopePlan {
  /** Why none of its records can be stored. */
  readonly fault?: FieldError | undefined;
  readonly scope: Slice | undefined;
  readonly chunks: readonly Chunk[];
}

interface ResourcePlan {
  readonly resource: Slice | undefined;
  readonly scopes: readonly ScopePlan[];
  /** Why none of its records can be stored. */
  readonly fault: FieldError | undefined;
}

export interface BatchPlan {
  readonly body: Uint8Array;
  readonly isText: boolean;
  readonly shape: BatchShape;
  readonly resources: readonly ResourcePlan[];
  /** The last of several fields with the same name counts; otherwise, it is a fault of their record. */
  readonly mayRepeat?: boolean;
}

/** Large enough that parsing in chunks costs no more than parsing the whole document, small enough to hold in memory. */
const CHUNK_BYTES = 64 * 1024;
const CHUNK_TOKENS = 16 * 1024;

/**
 * Throws malformed_body if the body is not JSON in UTF-8, invalid_payload if it has another shape, batch_too_large. If it `isTolerant`, a
 * fault of a resource or a record, also text that is not UTF-8, becomes part of the plan.
 */
export function planBatch(body: Uint8Array, shape: BatchShape, isTolerant = false): BatchPlan {
  const isText = isUtf8(body);
  if (!isText && !isTolerant) throw new ApiError("malformed_body", notJson(body, "the body is not UTF-8"));
  try {
    const resources = new Planner(body, shape, isTolerant).plan();
    return { body, isText, shape, resources };
  } catch (error) {
    if (error instanceof FieldError) throw error.toApiError();
    if (error instanceof ApiError && error.code === "malformed_body") throw new ApiError("malformed_body", notJson(body, error.message));
    throw error;
  }
}

/** Most bodies that are not JSON are OTLP/protobuf from an exporter with its default settings. */
function notJson(body: Uint8Array, problem: string): string {
  const looksLikeProtobuf = body[0] === 0x0a;
  return looksLikeProtobuf
    ? `${problem}; it looks like protobuf: this endpoint takes OTLP/JSON (set the exporter's encoding to json)`
    : problem;
}

class Planner {
  readonly #scanner: JsonScanner;
  readonly #shape: BatchShape;
  readonly #isTolerant: boolean;
  #parts = 0;
  #hasRecords = false;
  /** The first field of a wrong type; reported only if the rest is valid JSON. */
  #problem: FieldError | undefined;
  /** The first unknown field of an object without its list of resources, scopes or records. */
  #unknown: { readonly name: string; readonly path: string; readonly list: string } | undefined;

  constructor(body: Uint8Array, shape: BatchShape, isTolerant: boolean) {
    this.#scanner = new JsonScanner(body);
    this.#shape = shape;
    this.#isTolerant = isTolerant;
  }

  plan(): ResourcePlan[] {
    const { resources } = this.#shape;
    const plans: ResourcePlan[] = [];
    const scanner = this.#scanner;
    // An empty body is an empty document.
    if (scanner.atEnd()) return plans;
    this.#readObject("", { [resources]: () => this.#list(resources, (path) => plans.push(this.#resource(path))) });
    if (!scanner.atEnd()) scanner.fail("something follows the document");
    // A success must not mean that nothing was understood.
    const unknown = this.#hasRecords ? undefined : this.#unknown;
    if (unknown && (this.#isTolerant || FOREIGN.test(unknown.name)))
      this.#recordProblem(unknown.path, `is not a field of this request, which has ${unknown.list} instead`);
    if (this.#problem) throw this.#problem;
    return plans;
  }

  #resource(path: string): ResourcePlan {
    const { scopes } = this.#shape;
    const problem = this.#problem;
    let resource: Slice | undefined;
    const plans: ScopePlan[] = [];
    if (this.#isTolerant) this.#problem = undefined;
    this.#readObject(path, {
      resource: () => (resource = this.#slice(`${path}.resource`)),
      [scopes]: () => this.#list(`${path}.${scopes}`, (item) => plans.push(this.#scope(item))),
    });
    if (!this.#isTolerant) return { resource, scopes: plans, fault: undefined };
    const fault = this.#problem;
    this.#problem = problem;
    return { resource, scopes: plans, fault };
  }

  #scope(path: string): ScopePlan {
    const { records } = this.#shape;
    const problem = this.#problem;
    if (this.#isTolerant) this.#problem = undefined;
    let scope: Slice | undefined;
    let chunks: Chunk[] = [];
    this.#readObject(path, {
      scope: () => (scope = this.#slice(`${path}.scope`)),
      [records]: () => (chunks = this.#records(`${path}.${records}`)),
    });
    if (!this.#isTolerant) return { scope, chunks };
    const fault = this.#problem;
    this.#problem = problem;
    return { scope, chunks, fault };
  }

  /** Walks through an object; each of `fields` may occur at most once. */
  #readObject(path: string, fields: Readonly<Record<string, () => void>>): void {
    const scanner = this.#scanner;
    if (scanner.kind() !== "object") {
      this.#recordProblem(path, "must be an object");
      return scanner.value();
    }
    const seen = new Set<string>();
    let unknown: string | undefined;
    scanner.object((key) => {
      const read = Object.hasOwn(fields, key) ? fields[key] : undefined;
      if (!read) {
        const right = jsonNameOf(key);
        if (right !== undefined) this.#recordProblem(inPath(path, key), `OTLP/JSON names this field ${right}`);
        else if (!IGNORED.has(key)) unknown ??= key;
        return scanner.value();
      }
      if (seen.has(key)) this.#recordProblem(inPath(path, key), GIVEN_TWICE);
      seen.add(key);
      read();
    });
    const list = Object.keys(fields).at(-1) ?? "";
    if (unknown !== undefined && !seen.has(list)) this.#unknown ??= { name: unknown, path: inPath(path, unknown), list };
  }

  /** Walks through a list of messages; absent and null are empty. */
  #list(path: string, visit: (path: string) => void): void {
    if (!this.#isList(path)) return this.#scanner.value();
    this.#scanner.array((index) => {
      this.#parts += 1;
      if (this.#parts > MAX_RESOURCES_AND_SCOPES) throw tooLarge(`more than ${MAX_RESOURCES_AND_SCOPES} resources and scopes`);
      visit(`${path}[${index}]`);
    });
  }

  #records(path: string): Chunk[] {
    const scanner = this.#scanner;
    const chunks: Chunk[] = [];
    if (!this.#isList(path)) {
      scanner.value();
      return chunks;
    }
    let open: { start: number; tokens: number } | undefined;
    let count = 0;
    let end = 0;
    const close = (): void => {
      if (open) chunks.push({ start: open.start, end, count, mayRound: scanner.mayRound });
      open = undefined;
      count = 0;
      scanner.mayRound = false;
    };
    scanner.mayRound = false;
    scanner.array(() => {
      const { at: start, tokens: before } = scanner;
      scanner.value();
      this.#hasRecords = true;
      if (scanner.tokens - before > MAX_TOKENS_AT_ONCE) {
        const fault = this.#tooManyValues("", "a record");
        close();
        chunks.push({ start, end: scanner.at, count: 1, mayRound: false, fault });
        return;
      }
      open ??= { start, tokens: before };
      count += 1;
      end = scanner.at;
      if (end - open.start >= CHUNK_BYTES || scanner.tokens - open.tokens >= CHUNK_TOKENS) close();
    });
    close();
    return chunks;
  }

  #isList(path: string): boolean {
    const kind = this.#scanner.kind();
    if (kind === "other" || kind === "object") this.#recordProblem(path, "must be an array");
    return kind === "array";
  }

  #slice(path: string): Slice | undefined {
    const scanner = this.#scanner;
    const isNull = scanner.kind() === "null";
    const { at: start, tokens } = scanner;
    scanner.mayRound = false;
    scanner.value();
    if (scanner.tokens - tokens > MAX_TOKENS_AT_ONCE) this.#problem ??= this.#tooManyValues(path, "a resource or scope");
    return isNull ? undefined : { start, end: scanner.at, mayRound: scanner.mayRound };
  }

  #recordProblem(path: string, problem: string): void {
    this.#problem ??= new FieldError(path, problem);
  }

  /** Throws unless the fault may cost the records concerned instead of the body. */
  #tooManyValues(path: string, part: string): FieldError {
    if (!this.#isTolerant) throw tooLarge(`${part} with more than ${MAX_TOKENS_AT_ONCE} values`);
    return new FieldError(path, `has more than ${MAX_TOKENS_AT_ONCE} values`);
  }
}

/** Fields of a resource or a scope that are known but not stored. */
const IGNORED = new Set(["schemaUrl"]);
/** Names of another signal or an older version. */
const FOREIGN = /^(?:resource|scope|instrumentationLibrary)(?:Logs|Spans|Metrics)$/;

function inPath(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}

/** The sender should send smaller batches; a single record that is too large can never be stored. */
export function tooLarge(what: string): ApiError {
  return new ApiError("batch_too_large", `the body needs too much memory once decoded (${what}): send smaller batches`);
}

/** Estimates the size of the rows without parsing, rather too high. `rowBytes`: what each row needs in addition to its record. */
export function estimateRows({ resources }: BatchPlan, rowBytes: number): number {
  let bytes = 0;
  for (const { resource, scopes } of resources) {
    for (const { scope, chunks } of scopes) {
      const perRow = rowBytes + sliceBytes(resource) + sliceBytes(scope);
      for (const chunk of chunks) bytes += sliceBytes(chunk) + chunk.count * perRow;
    }
  }
  return bytes;
}

function sliceBytes(slice: Slice | undefined): number {
  return slice === undefined ? 0 : slice.end - slice.start;
}
