// The fast path from OTLP/JSON metrics to exposition text: the WebAssembly kernel (agent/proxy/kernel) writes the lines of typical metrics, and
// leaves unusual labels and metrics to TypeScript (common/otlp-metrics/metric-lines.ts). Invariants: its output has the same bytes as that of
// common/otlp-metrics/converter.ts; that converter processes the documents that this one does not support; its memory is limited.
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { freeBuffer } from "../../common/http.ts";
import { KernelFallback, KernelMemory, LazyKernel, startKernel, webAssembly } from "../../common/kernel-host.ts";
import { BoundsText } from "../../common/otlp-metrics/histogram-buckets.ts";
import { MetricLines, usableName, ResourceText } from "../../common/otlp-metrics/metric-lines.ts";
import type { Double, KeyValue, Metric, ResourceMetrics } from "../../common/otlp-metrics/document.ts";
import { type NamedAs, sampleValue } from "../../common/otlp-metrics/prometheus-names.ts";
import { pointLabelName, ResourceLabels } from "../../common/otlp-metrics/series-labels.ts";
import { type DropReason, NO_ATTRIBUTES } from "../../common/otlp-metrics/series-writer.ts";
import { MAX_HEAD_BYTES, MAX_KERNEL_BODY_BYTES, MAX_KERNEL_TEXT_BYTES, MAX_LEFT_METRICS } from "../agent-limits.ts";

interface Exports {
  inputAt(): number;
  needsRoom(): number;
  forget(): void;
  wasFull(): number;
  read(length: number): void;
  unusualMetric(): number;
  leaveMetric(): number;
  resume(at: number, length: number, hadPoints: boolean): void;
  textLength(): number;
  resourceMessageAt(): number;
  resourceMessageLength(): number;
  resourceCount(): number;
}

const EXPORTS = [
  "forget",
  "inputAt",
  "leaveMetric",
  "needsRoom",
  "read",
  "resourceCount",
  "resourceMessageAt",
  "resourceMessageLength",
  "resume",
  "textLength",
  "unusualMetric",
  "wasFull",
] as const satisfies readonly (keyof Exports)[];

/** Buffer for text that is kept between documents; a larger one is freed. */
const KEPT_TEXT_BYTES = 512 * 1024;
const FIRST_PAGES = 32;
const MAX_PAGES = 96;
/** Zero bytes after the body. */
const GUARD_BYTES = 64;
/** Size of the kernel's tables; see kernel/memory.ts. */
const MAX_LABEL_IDS = 4096;
const NUMBER_BYTES = 64;
/** Separates a metric's name from its unit. */
const UNIT_MARK = 0xff;
/** Indexed by the kernel's numbers: kernel/dictionary.ts. */
const NAMED_AS: readonly (NamedAs | undefined)[] = [undefined, "gauge", "counter", "other"];
const RESOURCE = 4;
const BOUNDS = 5;

type Drop = readonly [reason: DropReason, points: number];

interface FastText {
  /** Lines, possibly empty. The caller owns the memory. */
  readonly text: Buffer;
  /** Points that were left out. */
  readonly drops: readonly Drop[];
}

export class FastConverter {
  readonly #memory = new KernelMemory({ initial: FIRST_PAGES, maximum: MAX_PAGES });
  readonly #exports: Exports;
  /** Ids by label name. */
  readonly #labelIds = new Map<string, number>();
  #isFull = true;
  #traps = 0;
  #leftMetrics = 0;
  #leftLines = 0;
  #leftPoints = 0;
  // State of the current document.
  #text: Buffer = Buffer.allocUnsafeSlow(KEPT_TEXT_BYTES);
  #maxTextBytes = 0;
  #drops: Drop[] = [];
  #targets = new Set<string>();
  #resource: ResourceText | undefined;
  readonly #metrics = new MetricLines((...drop) => void this.#drops.push(drop));

  constructor(bytes: Uint8Array) {
    const memory = this.#memory;
    const host = {
      giveUp: () => {
        throw KernelFallback.instance;
      },
      flush: (at: number, length: number, before: number) => this.#put(memory.bytes().subarray(at, at + length), before),
      number: (at: number, length: number, to: number) => memory.write(sampleValue(Number(memory.text(at, length))), to, NUMBER_BYTES),
      describe: (kind: number, at: number, length: number, to: number, room: number) => this.#describe(kind, at, length, to, room),
      labels: (at: number, length: number, isHistogram: number, to: number, room: number) => {
        this.#leftPoints += 1;
        const attributes = length === 0 ? NO_ATTRIBUTES : (JSON.parse(memory.text(at, length)) as KeyValue[]);
        return memory.write(this.#resourceText().pointLabels(attributes, isHistogram !== 0), to, room);
      },
      endResource: (timeAt: number, timeLength: number, to: number, room: number) => {
        const time = timeLength === 0 ? undefined : ` ${memory.text(timeAt, timeLength)}`;
        return memory.write(this.#resourceText().targetInfo(time, this.#targets), to, room);
      },
    };
    this.#exports = startKernel<Exports>(bytes, EXPORTS, { env: { memory: memory.memory }, host });
  }

  /** Number of unexpected WebAssembly traps, for tests. */
  get traps(): number {
    return this.#traps;
  }

  /** Counts of metrics, their lines, and labels of points that TypeScript converted instead of the kernel. */
  get left(): { readonly metrics: number; readonly lines: number; readonly points: number } {
    return { metrics: this.#leftMetrics, lines: this.#leftLines, points: this.#leftPoints };
  }

  /** Size of the kernel's memory, which never shrinks. */
  get memoryBytes(): number {
    return this.#memory.byteLength;
  }

  /** Undefined if the kernel does not support the body, or if the text exceeds `maxBytes`. */
  convert(body: Uint8Array, maxBytes: number): FastText | undefined {
    if (body.byteLength > MAX_KERNEL_BODY_BYTES || !isUtf8(body)) return undefined;
    const knewOthers = this.#labelIds.size > 1;
    const converted = this.#try(body, maxBytes);
    // The kernel may have to forget other documents to make space for this one.
    return converted ?? (knewOthers && this.#lacksRoom ? this.#try(body, maxBytes) : undefined);
  }

  get #lacksRoom(): boolean {
    return this.#isFull || this.#exports.wasFull() !== 0;
  }

  /** Clears the cache of resources, names and keys of earlier documents. */
  forget(): void {
    this.#exports.forget();
    this.#labelIds.clear();
    // The kernel uses this number as a constant.
    this.#labelIds.set("le", 1);
    this.#isFull = false;
  }

  #try(body: Uint8Array, maxBytes: number): FastText | undefined {
    this.#maxTextBytes = Math.min(maxBytes, MAX_KERNEL_TEXT_BYTES);
    this.#drops = [];
    this.#targets = new Set();
    this.#resource = undefined;
    try {
      if (this.#lacksRoom || this.#exports.needsRoom() !== 0) this.forget();
      const at = this.#exports.inputAt();
      this.#memory.growTo(at + body.byteLength + GUARD_BYTES);
      this.#memory.bytes().set(body, at);
      this.#readDocument(body.byteLength);
      return { text: this.#copyText(), drops: this.#drops };
    } catch (error) {
      // The other converter meets the same problem and reports it with a message.
      if (error instanceof webAssembly.RuntimeError) this.#traps += 1;
      return undefined;
    } finally {
      this.#resource = undefined;
      if (this.#text.length > KEPT_TEXT_BYTES) this.#setText(Buffer.allocUnsafeSlow(KEPT_TEXT_BYTES));
    }
  }

  /** Copies the text into memory that can be freed. */
  #copyText(): Buffer {
    const length = this.#exports.textLength();
    const copy = Buffer.allocUnsafeSlow(length);
    this.#text.copy(copy, 0, 0, length);
    return copy;
  }

  #setText(text: Buffer): void {
    freeBuffer(this.#text);
    this.#text = text;
  }

  /** Converts the metrics that the kernel falls back for; the kernel continues after each. */
  #readDocument(length: number): void {
    const exports = this.#exports;
    let step = () => exports.read(length);
    for (let count = 0; count < MAX_LEFT_METRICS; count += 1) {
      try {
        return step();
      } catch (error) {
        if (error !== KernelFallback.instance || this.#lacksRoom || exports.unusualMetric() === 0) throw error;
      }
      this.#leftMetrics += 1;
      const from = exports.unusualMetric();
      const end = exports.leaveMetric();
      const { text, hadPoints } = this.#resourceText().metric(
        JSON.parse(this.#memory.text(from, end - from)) as Metric,
        this.#maxTextBytes,
      );
      const lines = Buffer.from(text);
      this.#leftLines += text.split("\n").length - 1;
      this.#put(lines, exports.textLength());
      step = () => exports.resume(end, lines.length, hadPoints);
    }
    throw KernelFallback.instance;
  }

  /** Text of the current resource. */
  #resourceText(): ResourceText {
    const exports = this.#exports;
    const number = exports.resourceCount();
    if (this.#resource?.number !== number) {
      const labels = parseLabels(this.#memory.text(exports.resourceMessageAt(), exports.resourceMessageLength()));
      this.#resource = new ResourceText(number, labels, this.#metrics, (...drop) => void this.#drops.push(drop));
    }
    return this.#resource;
  }

  #describe(kind: number, at: number, length: number, to: number, room: number): number {
    if (kind === RESOURCE) return this.#describeResource(this.#memory.text(at, length), to, room);
    if (kind === BOUNDS) return this.#describeBounds(this.#memory.text(at, length), to, room);
    const namedAs = NAMED_AS[kind];
    if (namedAs === undefined) {
      const name = pointLabelName(this.#memory.text(at, length));
      return this.#memory.writeNumbers([this.#labelId(name)], to, room) + this.#memory.write(`${name}="`, to + 4, room - 4);
    }
    const mark = this.#memory.bytes().indexOf(UNIT_MARK, at) - at;
    return this.#memory.write(
      usableName(this.#memory.text(at, mark), this.#memory.text(at + mark + 1, length - mark - 1), namedAs),
      to,
      room,
    );
  }

  #describeResource(message: string, to: number, room: number): number {
    const labels = parseLabels(message);
    const { names } = labels;
    const text = labels.text(names.length, new Set());
    if (text.length > MAX_HEAD_BYTES) throw KernelFallback.instance;
    const isTarget = labels.infoText() !== undefined;
    const written = this.#memory.writeNumbers([names.length, Number(isTarget), ...names.map((name) => this.#labelId(name))], to, room);
    return written + this.#memory.write(text, to + written, room - written);
  }

  #describeBounds(array: string, to: number, room: number): number {
    const texts = new BoundsText().of(JSON.parse(array) as Double[]);
    if (texts === undefined) throw KernelFallback.instance;
    let written = this.#memory.writeNumbers([texts.length], to, room);
    for (const text of texts) {
      if (text.length > 255 || written + 1 > room) throw KernelFallback.instance;
      this.#memory.bytes()[to + written] = text.length;
      written += 1 + this.#memory.write(text, to + written + 1, room - written - 1);
    }
    return written;
  }

  /** 0 for a label without a name. */
  #labelId(name: string): number {
    if (name === "") return 0;
    const known = this.#labelIds.get(name);
    if (known !== undefined) return known;
    const id = this.#labelIds.size + 1;
    if (id >= MAX_LABEL_IDS) {
      this.#isFull = true;
      throw KernelFallback.instance;
    }
    this.#labelIds.set(name, id);
    return id;
  }

  /** Writes lines after the first `before` bytes of the document's text. */
  #put(lines: Uint8Array, before: number): void {
    const needed = before + lines.length;
    if (needed > this.#maxTextBytes) throw new RangeError("the text exceeds one request");
    if (needed > this.#text.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(Math.max(2 * this.#text.length, needed), MAX_KERNEL_TEXT_BYTES));
      this.#text.copy(larger, 0, 0, before);
      this.#setText(larger);
    }
    this.#text.set(lines, before);
  }
}

/** Labels from the JSON of a resource; "" means no resource. */
function parseLabels(message: string): ResourceLabels {
  const resource = message === "" ? undefined : (JSON.parse(message) as ResourceMetrics["resource"]);
  return new ResourceLabels(resource?.attributes ?? NO_ATTRIBUTES);
}

const sharedConverter = new LazyKernel(() => new FastConverter(readFileSync(new URL("./kernel.wasm", import.meta.url))));

/** Returns the process's only converter, because its caches are large. Undefined if WebAssembly is not available. */
export function fastConverter(): FastConverter | undefined {
  return sharedConverter.get();
}

/** Returns why there is no fast converter. */
export function fastConverterProblem(): unknown {
  sharedConverter.get();
  return sharedConverter.problem;
}
