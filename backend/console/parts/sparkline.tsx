// A small line chart without axes. The text next to the chart contains the same values, for people who cannot see the chart.
const [WIDTH, HEIGHT] = [100, 24];

export interface SparklineProps {
  /** Null: no value at that time, which leaves a gap. */
  readonly values: readonly (number | null)[];
  readonly label: string;
  /** A class of style/parts.css that gives the colour. */
  readonly colour?: string;
}

export function Sparkline({ values, label, colour = "is-info" }: SparklineProps) {
  const max = Math.max(0, ...values.map((value) => value ?? 0));
  const stepX = WIDTH / Math.max(1, values.length - 1);
  const pointAt = (value: number, at: number): string =>
    `${(at * stepX).toFixed(1)},${(HEIGHT - 1 - (max === 0 ? 0 : (value / max) * (HEIGHT - 2))).toFixed(1)}`;
  return (
    <svg class={`sparkline ${colour}`} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      {linesOf(values).map((line) => (
        <polyline key={line.start} points={line.values.map((value, index) => pointAt(value, line.start + index)).join(" ")} />
      ))}
    </svg>
  );
}

/** Runs of values without gaps. */
function linesOf(values: readonly (number | null)[]): { readonly start: number; readonly values: number[] }[] {
  const lines: { start: number; values: number[] }[] = [];
  for (const [at, value] of values.entries()) {
    if (value === null) continue;
    const line = lines.at(-1);
    if (line && line.start + line.values.length === at) line.values.push(value);
    else lines.push({ start: at, values: [value] });
  }
  return lines;
}
