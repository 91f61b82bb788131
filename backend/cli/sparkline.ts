// Renders series over time as lines of text, each scaled between its own minimum and maximum. Invariants: no line is wider than the
// terminal; gaps in a series stay empty.
import { truncate, visible } from "./text-table.ts";

export interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly values: readonly (readonly [seconds: number, value: string])[];
}

export interface TimeRange {
  readonly startS: number;
  readonly endS: number;
  /** How long a value is valid. */
  readonly stepS: number;
}

const LEVELS = "▁▂▃▄▅▆▇█";
const MIN_COLUMNS = 40;
const MIN_SHAPE = 8;
const MIN_NAME = 10;
/** With fewer columns, only the last value is shown. */
const NARROW_COLUMNS = 60;

/** A header with the common labels, and a line per series; on a narrow terminal, only with the last value. */
export function sparklines(series: readonly Series[], range: TimeRange, columns: number): string[] {
  const width = Math.max(MIN_COLUMNS, columns);
  const figures = series.map(summaryOf);
  const figureNames = width < NARROW_COLUMNS ? (["last"] as const) : (["min", "max", "last"] as const);
  const widths = figureNames.map((name) => Math.max(name.length, ...figures.map((figure) => figure[name].length)));
  const figuresWidth = widths.reduce((sum, columnWidth) => sum + columnWidth + 2, 0);
  const common = commonLabels(series);
  const names = series.map(({ metric }) => seriesName(Object.fromEntries(Object.entries(metric).filter(([label]) => !(label in common)))));
  const longest = names.reduce((max, { length }) => Math.max(max, length), "SERIES".length);
  const freeWidth = Math.max(MIN_NAME + MIN_SHAPE, width - figuresWidth - 2);
  const nameWidth = Math.min(longest, Math.max(MIN_NAME, Math.floor(freeWidth / 2)));
  const shapeWidth = Math.max(MIN_SHAPE, freeWidth - nameWidth);
  const line = (name: string, shape: string, texts: readonly string[]): string => {
    const right = texts.map((text, at) => `  ${text.padStart(widths[at] ?? 0)}`).join("");
    return truncate(`${truncate(name, nameWidth).padEnd(nameWidth)}  ${shape.padEnd(shapeWidth)}${right}`, width);
  };
  const head = line(
    "SERIES",
    "",
    figureNames.map((name) => name.toUpperCase()),
  );
  const lines = series.map((entry, at) => {
    const texts = figureNames.map((name) => figures[at]?.[name] ?? "");
    return line(names[at] ?? "", shapeOf(entry, range, shapeWidth), texts);
  });
  return [...(Object.keys(common).length > 0 ? [truncate(`all: ${seriesName(common)}`, width)] : []), head, ...lines];
}

/** Labels that all series share. They are printed once; otherwise, they would push the distinguishing labels out of the line. */
function commonLabels(series: readonly Series[]): Record<string, string> {
  const [first, ...others] = series;
  if (!first || others.length === 0) return {};
  return Object.fromEntries(Object.entries(first.metric).filter(([label, value]) => others.every(({ metric }) => metric[label] === value)));
}

/** In PromQL's notation. */
export function seriesName({ __name__: name = "", ...labels }: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return visible(pairs.length === 0 ? name || "{}" : `${name}{${pairs.join(",")}}`);
}

/** The mean of each section of the range, scaled between minimum and maximum. */
function shapeOf({ values }: Series, { startS, endS, stepS }: TimeRange, width: number): string {
  const sections = Array.from({ length: width }, () => ({ sum: 0, count: 0 }));
  const scale = width / (endS - startS + stepS);
  for (const [seconds, text] of values) {
    const value = numberOf(text);
    if (!Number.isFinite(value)) continue;
    const from = Math.floor((seconds - startS) * scale);
    const to = Math.max(from + 1, Math.floor((seconds - startS + stepS) * scale));
    for (const section of sections.slice(Math.max(0, from), Math.max(0, to))) {
      section.sum += value;
      section.count += 1;
    }
  }
  return shapeOfNumbers(sections.map(({ sum, count }) => (count === 0 ? undefined : sum / count)));
}

/** One character for each number; undefined leaves a gap. */
export function shapeOfNumbers(means: readonly (number | undefined)[]): string {
  const known = means.filter((mean) => mean !== undefined);
  const [min, max] = [Math.min(...known), Math.max(...known)];
  const levelOf = (mean: number): number => (max > min ? Math.round(((mean - min) / (max - min)) * (LEVELS.length - 1)) : 3);
  return means.map((mean) => (mean === undefined ? " " : LEVELS[levelOf(mean)])).join("");
}

function summaryOf({ values }: Series): { min: string; max: string; last: string } {
  const numbers = values.map(([, text]) => numberOf(text)).filter((value) => !Number.isNaN(value));
  if (numbers.length === 0) return { min: "-", max: "-", last: "-" };
  const min = numbers.reduce((a, b) => Math.min(a, b));
  const max = numbers.reduce((a, b) => Math.max(a, b));
  return { min: formatNumber(min), max: formatNumber(max), last: formatNumber(numbers.at(-1) ?? min) };
}

/** Parses numbers as Prometheus writes them. */
function numberOf(text: string): number {
  return text === "+Inf" || text === "-Inf" ? Number(text.replace("Inf", "Infinity")) : Number(text);
}

function formatNumber(value: number): string {
  return String(Number(value.toPrecision(6)));
}
