// Names of the links through which the collector reads the agent's open files. A name holds the file's identity and the path at which the
// agent found it, so that the collector itself restores `log.file.path`: redaction, conditions and `service.name` see the original path.
import type { BigIntStats } from "node:fs";
import { MAX_NAME_BYTES } from "../../limits.ts";

const PART_BYTES = 240;
/** Holds names of more than 255 bytes as nested folders. */
const LONG = "long";
const PART = "-";
const DEVICE_LENGTH = 8;
const ID_LENGTH = DEVICE_LENGTH + 13;

/** An id of fixed length that stays the same while the file exists, even if it is renamed. */
export function fileId({ dev, ino }: Pick<BigIntStats, "dev" | "ino">): string {
  return dev.toString(36).padStart(DEVICE_LENGTH, "0") + ino.toString(36).padStart(ID_LENGTH - DEVICE_LENGTH, "0");
}

/** Relative to the folder of links. */
export function linkName(id: string, path: string): string {
  const name = id + path.replaceAll("%", "%25").replaceAll("/", "%2F");
  if (Buffer.byteLength(name) <= MAX_NAME_BYTES) return name;
  return `${LONG}/${parts(name).join(`/${PART}`)}`;
}

function parts(name: string): string[] {
  const found: string[] = [];
  let part = "";
  for (const character of name) {
    if (Buffer.byteLength(part + character) > PART_BYTES) {
      found.push(part);
      part = "";
    }
    part += character;
  }
  return [...found, part];
}

/** Globs of the collector for all links in `folder`. */
export function linkPatterns(folder: string): string[] {
  return [`${folder}/*`, `${folder}/${LONG}/**`];
}

/** Operators of the collector (file_log) that restore a file's path and name. They leave files alone that an overlay includes itself. */
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
