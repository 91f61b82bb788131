// Splits an OTLP document into parts that are parsed one after the other: a resource, a scope, a few records at a time. Invariants: the
// whole document is validated before any part is parsed; the amount that is parsed at once is bounded, whatever the document contains;
// unused fields are never parsed.
import { isUtf8 } from "node:buffer";
import { ApiError } from "../../errors.ts";
import { MAX_RESOURCES_AND_SCOPES, MAX_TOKENS_AT_ONCE } from "../limits.ts";
import { JsonScanner, utf8 } from "./json-scanner.ts";
import { exactText } from "./exact-integers.ts";
import { asObject, FieldError, type Json } from "./json.ts";

/** The names of the three nested lists of a signal's document. */
export interface BatchShape {
  readonly resources: string;
  readonly scopes: string;
  readonly records: string;
}

interface Slice {
  readonly start: number;
  readonly end: number;
  /** It may contain integers that a double would round. */
  readonly mayRound: boolean;
}

/** Consecutive records, including the commas between them. */
interface Chunk extends Slice {
  readonly count: number;
}

interface ScopePlan {
  readonly scope: Slice | undefined;
  readonly chunks: readonly Chunk[];
}

interface ResourcePlan {
  readonly resource: Slice | undefined;
  readonly scopes: readonly ScopePlan[];
}

/** A validated document. */
export interface BatchPlan {
  readonly body: Uint8Array;
  readonly shape: BatchShape;
  readonly resources: readonly ResourcePlan[];
}

/** Large enough that parsing in chunks costs no more than parsing the whole document, small enough to hold in memory. */
const CHUNK_BYTES = 64 * 1024;
const CHUNK_TOKENS = 16 * 1024;

/** Throws malformed_body if the body is not JSON in UTF-8, invalid_payload if it has another shape, batch_too_large. */
export function planBatch(body: Uint8Array, shape: BatchShape): BatchPlan {
  if (!isUtf8(body)) throw new ApiError("malformed_body", notJson(body, "the body is not UTF-8"));
  try {
    const resources = new Planner(body, shape).plan();
    return { body, shape, resources };
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
  #parts = 0;
  /** The first field of a wrong type; reported only if the rest is valid JSON. */
  #problem: FieldError | undefined;

  constructor(body: Uint8Array, shape: BatchShape) {
    this.#scanner = new JsonScanner(body);
    this.#shape = shape;
  }

  plan(): ResourcePlan[] {
    const { resources } = this.#shape;
    const plans: ResourcePlan[] = [];
    const scanner = this.#scanner;
    // An empty body is an empty document.
    if (scanner.atEnd()) return plans;
    this.#readObject("", { [resources]: () => this.#list(resources, (path) => plans.push(this.#resource(path))) });
    if (!scanner.atEnd()) scanner.fail("something follows the document");
    if (this.#problem) throw this.#problem;
    return plans;
  }

  #resource(path: string): ResourcePlan {
    const { scopes } = this.#shape;
    let resource: Slice | undefined;
    const plans: ScopePlan[] = [];
    this.#readObject(path, {
      resource: () => (resource = this.#slice()),
      [scopes]: () => this.#list(`${path}.${scopes}`, (item) => plans.push(this.#scope(item))),
    });
    return { resource, scopes: plans };
  }

  #scope(path: string): ScopePlan {
    const { records } = this.#shape;
    let scope: Slice | undefined;
    let chunks: Chunk[] = [];
    this.#readObject(path, {
      scope: () => (scope = this.#slice()),
      [records]: () => (chunks = this.#records(`${path}.${records}`)),
    });
    return { scope, chunks };
  }

  /** Walks through an object; each of `fields` may occur at most once. */
  #readObject(path: string, fields: Readonly<Record<string, () => void>>): void {
    const scanner = this.#scanner;
    if (scanner.kind() !== "object") {
      this.#recordProblem(path, "must be an object");
      return scanner.value();
    }
    const seen = new Set<string>();
    scanner.object((key) => {
      const read = Object.hasOwn(fields, key) ? fields[key] : undefined;
      if (!read) return scanner.value();
      if (seen.has(key)) this.#recordProblem(path === "" ? key : `${path}.${key}`, "is given twice");
      seen.add(key);
      read();
    });
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
      open ??= { start: scanner.at, tokens: scanner.tokens };
      const before = scanner.tokens;
      scanner.value();
      if (scanner.tokens - before > MAX_TOKENS_AT_ONCE) throw tooLarge(`a record with more than ${MAX_TOKENS_AT_ONCE} values`);
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

  #slice(): Slice | undefined {
    const scanner = this.#scanner;
    const isNull = scanner.kind() === "null";
    const { at: start, tokens } = scanner;
    scanner.mayRound = false;
    scanner.value();
    if (scanner.tokens - tokens > MAX_TOKENS_AT_ONCE) throw tooLarge(`a resource or scope with more than ${MAX_TOKENS_AT_ONCE} values`);
    return isNull ? undefined : { start, end: scanner.at, mayRound: scanner.mayRound };
  }

  #recordProblem(path: string, problem: string): void {
    this.#problem ??= new FieldError(path, problem);
  }
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

export interface BatchReader<Resource, Scope> {
  resource(resource: Json): Resource;
  scope(scope: Json): Scope;
  record(record: Json, resource: Resource, scope: Scope): void;
}

/** Reads the records one after the other. Throws invalid_payload that names the field, and the errors of the reader. */
export function readBatch<Resource, Scope>(plan: BatchPlan, reader: BatchReader<Resource, Scope>): void {
  const { body, shape, resources } = plan;
  for (const [resourceIndex, { resource, scopes }] of resources.entries()) {
    const resourcePath = `${shape.resources}[${resourceIndex}]`;
    const resourceData = withFieldPath(`${resourcePath}.resource`, () => reader.resource(parseSlice(body, resource)));
    for (const [scopeIndex, { scope, chunks }] of scopes.entries()) {
      const scopePath = `${resourcePath}.${shape.scopes}[${scopeIndex}]`;
      const scopeData = withFieldPath(`${scopePath}.scope`, () => reader.scope(parseSlice(body, scope)));
      let index = 0;
      const path = (): string => `${scopePath}.${shape.records}[${index}]`;
      withFieldPath(path, () => {
        for (const chunk of chunks) {
          for (const record of parseChunk(body, chunk)) {
            reader.record(asObject(record, ""), resourceData, scopeData);
            index += 1;
          }
        }
      });
    }
  }
}

/** Adds the path to a FieldError and throws it as an ApiError. */
function withFieldPath<T>(path: string | (() => string), read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof FieldError ? error.within(typeof path === "string" ? path : path()).toApiError() : error;
  }
}

/** If absent or null, the empty message. */
function parseSlice(body: Uint8Array, slice: Slice | undefined): Json {
  return slice === undefined ? {} : asObject(JSON.parse(textOf(body, slice)), "");
}

function parseChunk(body: Uint8Array, chunk: Chunk): unknown[] {
  const text = textOf(body, chunk);
  // A single record is not wrapped in brackets: that would copy what may be the whole body.
  return chunk.count === 1 ? [JSON.parse(text)] : (JSON.parse(`[${text}]`) as unknown[]);
}

function textOf(body: Uint8Array, { start, end, mayRound }: Slice): string {
  return mayRound ? exactText(body, start, end) : utf8(body, start, end);
}
