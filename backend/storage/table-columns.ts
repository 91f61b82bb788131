// The columns of the tables of telemetry, in the order in which rows are inserted. Decoders fill them, stores insert them.
import type { NativeColumns } from "../engines/clickhouse/native-block.ts";

/** The first columns of every table; they come from the sender and the time of receipt. */
export const COMMON_COLUMNS = [
  ["org_id", "constant String"],
  ["host_id", "constant String"],
  ["node", "constant String"],
  ["received_at", "constant DateTime"],
  ["body_hash", "constant UInt64"],
  ["time", "DateTime64(9)"],
  ["id", "UInt64"],
] as const satisfies NativeColumns;

export const LOG_CELLS = [
  ["level", "dictionary String"],
  ["severity_number", "UInt8"],
  ["source", "dictionary String"],
  ["message", "String"],
  ["labels", "Map(dictionary String, String)"],
  ["trace_id", "String"],
  ["span_id", "String"],
  ["scope_name", "dictionary String"],
] as const satisfies NativeColumns;

export const SPAN_CELLS = [
  ["trace_id", "String"],
  ["span_id", "String"],
  ["parent_span_id", "String"],
  ["service", "dictionary String"],
  ["operation", "String"],
  ["kind", "dictionary String"],
  ["duration_ns", "UInt64"],
  ["status_code", "dictionary String"],
  ["status_message", "String"],
  ["attributes", "Map(dictionary String, String)"],
  ["scope_name", "dictionary String"],
  ["scope_version", "dictionary String"],
  ["trace_state", "String"],
  ["events", "String"],
  ["links", "String"],
] as const satisfies NativeColumns;

export const EXEMPLAR_CELLS = [
  ["name", "String"],
  ["series", "Map(String, String)"],
  ["labels", "Map(String, String)"],
  ["value", "String"],
] as const satisfies NativeColumns;

export const LOG_COLUMNS: NativeColumns = [...COMMON_COLUMNS, ...LOG_CELLS];

export const SPAN_COLUMNS: NativeColumns = [...COMMON_COLUMNS, ...SPAN_CELLS];

export const EXEMPLAR_COLUMNS: NativeColumns = [...COMMON_COLUMNS, ...EXEMPLAR_CELLS];
