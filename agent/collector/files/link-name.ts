// Names the links through which the collector reads the agent's open files. A name encodes the file's identity and its original path, from
// which the collector restores `log.file.path` for redaction, conditions and `service.name`.
import type { BigIntStats } from "node:fs";
import { MAX_NAME_BYTES } from "../../agent-limits.ts";

const PART_BYTES = 240;
/** Folder for names above 255 bytes, which are stored as nested folders. */
const LONG = "long";
const PART = "-";
const DEVICE_LENGTH = 8;
const ID_LENGTH = DEVICE_LENGTH + 13;

/** An id of fixed length that stays the same while the file exists, even if it is renamed. */
export function fileId({ dev, ino }: Pick<BigIntStats, "dev" | "ino">): string {
  return dev.toString(36).padStart(DEVICE_LENGTH, "0") + ino.toString(36).padStart(ID_LENGTH - DEVICE_LENGTH, "0");
}

/** Relative to the folder that contains the links. */
export function linkName(id: string, path: string): string {
  const name = id + path.replaceAll("%", "%25").replaceAll("/", "%2F");
  if (Buffer.byteLength(name) <= MAX_NAME_BYTES) return name;
  return `${LONG}/${splitName(name).join(`/${PART}`)}`;
}

function splitName(name: string): string[] {
  const parts: string[] = [];
  let part = "";
  for (const character of name) {
    if (Buffer.byteLength(part + character) > PART_BYTES) {
      parts.push(part);
      part = "";
    }
    part += character;
  }
  return [...parts, part];
}

/** Globs of the collector for all links in `folder`. */
export function linkPatterns(folder: string): string[] {
  return [`${folder}/*`, `${folder}/${LONG}/**`];
}

/** Operators of the collector (file_log) that restore a file's path and name. Files that an overlay includes itself are not changed. */
export function restorePath(folder: string): object[] {
  const path = 'attributes["log.file.path"]';
  const prefix = JSON.stringify(`${folder}/`);
  const name = `replace(trimPrefix(trimPrefix(${path}, ${prefix}), "${LONG}/"), "/${PART}", "")[${ID_LENGTH}:]`;
  return [
    {
      type: "add",
      id: "file-path",
      field: path,
      value: `EXPR(replace(replace(${name}, "%2F", "/"), "%25", "%"))`,
      if: `${path} startsWith ${prefix}`,
    },
    { type: "add", id: "file-name", field: 'attributes["log.file.name"]', value: `EXPR(last(split(${path}, "/")))` },
  ];
}
