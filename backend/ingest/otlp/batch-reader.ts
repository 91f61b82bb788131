// Parses the parts of a validated OTLP document one after the other and gives them to a reader. Invariant: a fault costs the records
// concerned if faults are counted, and the whole body otherwise.
import { isUtf8 } from "node:buffer";
import { asObject, FieldError, type Json } from "../json-message.ts";
import { keepWithoutId, leaveOut, type RecordFaults } from "../record-faults.ts";
import type { BatchPlan, Chunk, Slice } from "./batch.ts";
import { exactText } from "./exact-integers.ts";
import { GIVEN_TWICE, pathText, readMembers } from "../../../common/otlp-metrics/json-members.ts";
import { findWrongName, isUnknownField, mayHaveWrongNames } from "./field-names.ts";
import { JsonScanner, utf8 } from "./json-scanner.ts";

export interface BatchReader<Resource, Scope> {
  resource(resource: Json): Resource;
  scope(scope: Json): Scope;
  /** Returns the fault of an id without which the record is stored. */
  record(record: Json, resource: Resource, scope: Scope): FieldError | undefined;
  /** Takes back a record of which `record` threw a FieldError. */
  undo(): void;
}

/**
 * Reads the records one after the other. Throws the errors of the reader, and invalid_payload that names the field; with `faults`, records
 * that are invalid, or whose resource or scope is, are left out instead.
 */
export function readBatch<Resource, Scope>(plan: BatchPlan, reader: BatchReader<Resource, Scope>, faults?: RecordFaults): void {
  const { shape, resources } = plan;
  for (const [index, { resource, scopes, fault }] of resources.entries()) {
    const path = `${shape.resources}[${index}]`;
    const counts = scopes.map(({ chunks }) => chunks.reduce((sum, { count }) => sum + count, 0));
    const count = counts.reduce((sum, records) => sum + records, 0);
    if (fault) onFault(fault, faults, count, () => "");
    const data = fault
      ? undefined
      : attempt(`${path}.resource`, faults, count, () => reader.resource(parseSlice(plan, "resource", resource)));
    if (data === undefined) continue;
    for (const [scopeIndex, { scope, chunks, fault: scopeFault }] of scopes.entries()) {
      const at = `${path}.${shape.scopes}[${scopeIndex}]`;
      if (scopeFault) {
        onFault(scopeFault, faults, counts[scopeIndex] ?? 0, () => "");
        continue;
      }
      const scopeData = attempt(`${at}.scope`, faults, counts[scopeIndex] ?? 0, () => reader.scope(parseSlice(plan, "scope", scope)));
      if (scopeData === undefined) continue;
      const read = (record: Json): FieldError | undefined => reader.record(record, data, scopeData);
      readRecords(plan, chunks, { path: `${at}.${shape.records}`, faults, read, undo: () => reader.undo() });
    }
  }
}

interface RecordReader {
  readonly path: string;
  readonly faults: RecordFaults | undefined;
  readonly read: (record: Json) => FieldError | undefined;
  readonly undo: () => void;
}

function readRecords(plan: BatchPlan, chunks: readonly Chunk[], { path, faults, read, undo }: RecordReader): void {
  let index = 0;
  for (const chunk of chunks) {
    for (const record of parseChunk(plan, chunk)) {
      const at = index;
      const named = (): string => `${path}[${at}]`;
      let isStarted = false;
      try {
        if (record instanceof FieldError) throw record;
        const object = asObject(record, "");
        isStarted = true;
        const idFault = read(object);
        if (idFault && faults) keepWithoutId(faults, () => idFault.within(named()).text);
      } catch (error) {
        onFault(error, faults, 1, named);
        if (isStarted) undo();
      }
      index += 1;
    }
  }
}

/** Undefined if there was a fault, which costs `count` records. */
function attempt<T>(path: string, faults: RecordFaults | undefined, count: number, read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    onFault(error, faults, count, () => path);
    return undefined;
  }
}

/** Counts the fault, or throws an ApiError with the path. A fault of a part that has no records counts as one. */
function onFault(error: unknown, faults: RecordFaults | undefined, count: number, path: () => string): void {
  if (!(error instanceof FieldError)) throw error;
  const named = (): FieldError => (path() === "" ? error : error.within(path()));
  if (!faults) throw named().toApiError();
  leaveOut(faults, Math.max(1, count), () => named().text);
}

/** If absent or null, the empty message. */
function parseSlice(plan: BatchPlan, part: "resource" | "scope", slice: Slice | undefined): Json {
  if (slice === undefined) return {};
  const { body } = plan;
  const fault = findFault(plan, part, body, slice);
  if (fault) throw fault;
  const text = textOf(body, slice);
  const [message] = withNameFaults(part, text, [JSON.parse(text)]);
  if (message instanceof FieldError) throw message;
  return asObject(message, "");
}

/** A FieldError in the place of each message that has a field with its name in protobuf. */
function withNameFaults(part: string, text: string, messages: unknown[]): unknown[] {
  return mayHaveWrongNames(text) ? messages.map((message) => findWrongName(part, message) ?? message) : messages;
}

/** The records; a FieldError in the place of one with a wrong name, a field twice, text that is not UTF-8, or too many values. */
function parseChunk(plan: BatchPlan, chunk: Chunk): unknown[] {
  const { body, shape } = plan;
  if (chunk.fault) return [chunk.fault];
  const fault = findFault(plan, shape.records, body, chunk);
  if (fault) return chunk.count === 1 ? [fault] : parseEach(plan, chunk);
  const text = textOf(body, chunk);
  // A single record is not wrapped in brackets: that would copy what may be the whole body.
  return withNameFaults(shape.records, text, chunk.count === 1 ? [JSON.parse(text)] : (JSON.parse(`[${text}]`) as unknown[]));
}

function parseEach(plan: BatchPlan, chunk: Chunk): unknown[] {
  const { body, shape } = plan;
  const list = Buffer.concat([Buffer.from("["), body.subarray(chunk.start, chunk.end), Buffer.from("]")]);
  const scanner = new JsonScanner(list);
  const records: unknown[] = [];
  scanner.array(() => {
    const start = scanner.at;
    scanner.value();
    const slice = { start, end: scanner.at, mayRound: chunk.mayRound };
    records.push(findFault(plan, shape.records, list, slice) ?? JSON.parse(textOf(list, slice)));
  });
  return withNameFaults(shape.records, utf8(body, chunk.start, chunk.end), records);
}

/** The first fault that is not seen once the text is parsed, of one message or of several with commas between them. */
function findFault({ isText, mayRepeat }: BatchPlan, part: string, bytes: Uint8Array, slice: Slice): FieldError | undefined {
  const fault = isText ? undefined : textFault(bytes, slice);
  if (fault || mayRepeat) return fault;
  const json = Buffer.from(bytes.buffer, bytes.byteOffset + slice.start, slice.end - slice.start);
  const { twice } = readMembers(json, { containers: Infinity, names: Infinity }, (path) => isUnknownField(path, part));
  return twice && new FieldError(pathText(twice), GIVEN_TWICE);
}

/** Names the field whose text is not UTF-8. */
function textFault(body: Uint8Array, { start, end }: Slice): FieldError | undefined {
  if (isUtf8(body.subarray(start, end))) return undefined;
  const text = utf8(body, start, end);
  const before = text.slice(0, text.indexOf("\uFFFD"));
  const nameEnd = before.lastIndexOf('":');
  const name = before.slice(before.lastIndexOf('"', nameEnd - 1) + 1, nameEnd);
  return new FieldError("", /^\w{1,40}$/.test(name) ? `${name} is not UTF-8` : "is not UTF-8");
}

function textOf(body: Uint8Array, { start, end, mayRound }: Slice): string {
  return mayRound ? exactText(body, start, end) : utf8(body, start, end);
}
