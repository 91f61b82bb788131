// Measures the objects of a page in a heap snapshot after garbage collection. Compiled code and the engine's caches are not counted: they
// grow for as long as V8 optimises functions, without being a leak.
import type { CDPSession } from "playwright-core";

interface Snapshot {
  readonly snapshot: { readonly meta: { readonly node_fields: string[]; readonly node_types: [string[]] } };
  readonly nodes: number[];
  readonly strings: string[];
}

const OF_THE_ENGINE: ReadonlySet<string> = new Set(["code", "hidden", "object shape"]);
/** Chromium's list of up to 150 layout shifts, and its records of loaded modules. */
const OF_THE_BROWSER = /^native (?:LayoutShift|LayoutShiftAttribution|DOMRectReadOnly|SingleModuleClient)$/;

/** Bytes by type and constructor. */
export type Heap = ReadonlyMap<string, number>;

export async function heapOf(cdp: CDPSession): Promise<Heap> {
  const chunks: string[] = [];
  const keep = ({ chunk }: { chunk: string }): void => void chunks.push(chunk);
  cdp.on("HeapProfiler.addHeapSnapshotChunk", keep);
  await cdp.send("HeapProfiler.collectGarbage");
  await cdp.send("HeapProfiler.takeHeapSnapshot", { reportProgress: false });
  cdp.off("HeapProfiler.addHeapSnapshotChunk", keep);
  const { snapshot, nodes, strings } = JSON.parse(chunks.join("")) as Snapshot;
  const { node_fields: fields, node_types: types } = snapshot.meta;
  const [typeAt, nameAt, sizeAt] = ["type", "name", "self_size"].map((field) => fields.indexOf(field)) as [number, number, number];
  const heap = new Map<string, number>();
  for (let at = 0; at < nodes.length; at += fields.length) {
    const type = types[0][nodes[at + typeAt] ?? 0] ?? "";
    if (OF_THE_ENGINE.has(type)) continue;
    const key = type.includes("string") ? "strings" : `${type} ${strings[nodes[at + nameAt] ?? 0]?.slice(0, 60)}`;
    if (OF_THE_BROWSER.test(key)) continue;
    heap.set(key, (heap.get(key) ?? 0) + (nodes[at + sizeAt] ?? 0));
  }
  return heap;
}

export const objectsKb = (heap: Heap): number => Math.round([...heap.values()].reduce((sum, bytes) => sum + bytes, 0) / 1024);

/** The ten that grew most, kB. */
export function growth(before: Heap, after: Heap): Record<string, number> {
  const grown = [...after].map(([key, bytes]) => [key, Math.round((bytes - (before.get(key) ?? 0)) / 1024)] as const);
  return Object.fromEntries(
    grown
      .filter(([, kb]) => kb > 0)
      .toSorted(([, a], [, b]) => b - a)
      .slice(0, 10),
  );
}
