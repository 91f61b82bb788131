// Generates log lines of a busy server, for benchmarks of programs that read files.
import { randomBytes, randomUUID } from "node:crypto";

/** 1,000 of them, because compression sees no further back. */
export function loadLines(): readonly string[] {
  return Array.from({ length: 1000 }, (_, index) => {
    const ids = `request=${randomUUID()} trace=${randomBytes(16).toString("hex")}`;
    return `2026-11-21T10:00:${String(index % 60).padStart(2, "0")}.${index}Z INFO checkout GET /api/items/${index * 37} served in ${index % 431} ms ${ids}\n`;
  });
}
