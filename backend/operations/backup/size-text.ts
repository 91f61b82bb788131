// Bytes and counts as people read them.
const UNITS = ["KiB", "MiB", "GiB", "TiB"];

/** `512 bytes`, `1.4 GiB`. */
export function sizeText(bytes: number): string {
  let [value, unit] = [bytes, "bytes"];
  for (const next of UNITS) {
    if (value < 1024) break;
    [value, unit] = [value / 1024, next];
  }
  return `${unit === "bytes" || value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`;
}

/** `1 rule`, `12,345 rules`. */
export function countText(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? one : many}`;
}
