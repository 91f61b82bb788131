// How long ago a moment was, as the CLI and the console print it.

/** `3 min ago`. */
export function ageText(ageMs: number): string {
  const s = Math.max(0, Math.round(ageMs / 1000));
  if (s < 90) return `${s} s ago`;
  if (s < 5400) return `${Math.round(s / 60)} min ago`;
  if (s < 172_800) return `${Math.round(s / 3600)} h ago`;
  return `${Math.round(s / 86_400)} d ago`;
}
