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

/** The id of a link's file; `name` is relative to the folder. Undefined for any other name. */
export function idOfLink(name: string): string | undefined {
  const id = (name.startsWith(`${LONG}/`) ? name.slice(LONG.length + 1) : name).slice(0, ID_LENGTH);
  return /^[0-9a-z]+$/.test(id) && id.length === ID_LENGTH ? id : undefined;
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

/** Statements (OTTL) that restore a file's path and name. Files that an overlay includes itself are not changed. */
export function pathStatements(folder: string): string[] {
  const [path, link] = ['resource.attributes["log.file.path"]', 'resource.cache["link"]'];
  const prefix = `${folder}/`;
  const from = Buffer.byteLength(prefix);
  const isLink = `where ${link} != nil`;
  return [
    `set(${link}, Substring(${path}, ${from}, Len(${path}) - ${from})) where HasPrefix(${path}, ${JSON.stringify(prefix)})`,
    `replace_pattern(${link}, "^${LONG}/", "") ${isLink}`,
    `replace_pattern(${link}, "/${PART}", "") ${isLink}`,
    `set(${path}, Substring(${link}, ${ID_LENGTH}, Len(${link}) - ${ID_LENGTH})) ${isLink}`,
    `replace_pattern(${path}, "%2F", "/") ${isLink}`,
    `replace_pattern(${path}, "%25", "%") ${isLink}`,
    `set(resource.attributes["log.file.name"], ExtractPatterns(${path}, "(?P<name>[^/]*)$")["name"])`,
  ];
}
