// Names of links. test/faults/log-files.test.ts checks that the collector restores the paths.
import { describe, expect, test } from "vitest";
import { fileId, linkName } from "./link-name.ts";

const ID = fileId({ dev: 2049n, ino: 18_446_744_073_709_551_615n });

describe("the name of a link", () => {
  test("starts with an identity of fixed length", () => {
    expect(fileId({ dev: 0n, ino: 1n })).toHaveLength(ID.length);
    expect(fileId({ dev: 1n, ino: 0n })).not.toBe(fileId({ dev: 0n, ino: 1n }));
  });

  test.each(["/var/log/app.log", "/var/log/100%2F/ü %.log", "/", `/${"x".repeat(200)}/y.log`])("of %s contains the path", (path) => {
    const name = linkName(ID, path);
    expect(name).not.toContain("/");
    expect(decodeURIComponent(name.slice(ID.length).replaceAll(/%(?!2[5F])/g, "%25"))).toBe(path);
  });

  test("for a path that is too long is split into names that any file system accepts", () => {
    const path = `/${Array.from({ length: 40 }, () => "ü".repeat(100)).join("/")}/..%.log`;
    const [first, ...parts] = linkName(ID, path).split("/");
    expect(first).toBe("long");
    expect(parts.every((part) => Buffer.byteLength(part) <= 255 && part !== "" && part !== "." && part !== "..")).toBe(true);
    const joined = parts.map((part, i) => (i === 0 ? part : part.slice(1))).join("");
    expect(joined).toBe(ID + path.replaceAll("%", "%25").replaceAll("/", "%2F"));
  });
});
