// Chooses one of the series colours for a name. Invariant: a name keeps its colour; two names share one only if all are used.
export const COLOURS = 12;

/** The index of the colour of a name, next to names that already have one. */
export function pickColour(name: string, used: ReadonlyMap<string, number>): number {
  const known = used.get(name);
  if (known !== undefined) return known;
  const wanted = hash(name) % COLOURS;
  const taken = new Set(used.values());
  const free = Array.from({ length: COLOURS }, (_, at) => (wanted + at) % COLOURS).find((index) => !taken.has(index));
  return free ?? wanted;
}

/** FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/). */
function hash(name: string): number {
  let value = 0x81_1c_9d_c5;
  for (let at = 0; at < name.length; at++) value = Math.imul(value ^ name.charCodeAt(at), 0x01_00_01_93) >>> 0;
  return value;
}
