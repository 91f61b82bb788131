// Finds the targets of the command palette that match what the user types.

/** A target that the command palette can open. */
export interface Target {
  /** The kind of the target, such as `screen`, `service` or `pod`. */
  readonly kind: string;
  readonly name: string;
  readonly href: string;
}

const MAX_RESULTS = 20;

/** Returns targets whose name or kind contains every typed word; those whose name begins with the first word come first. */
export function findTargets(targets: readonly Target[], typed: string): Target[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const [first = ""] = words;
  return targets
    .flatMap((target) => {
      const name = target.name.toLowerCase();
      const isFound = words.every((word) => name.includes(word) || target.kind.includes(word));
      return isFound ? [{ target, rank: name === typed.toLowerCase() ? 0 : name.startsWith(first) ? 1 : 2 }] : [];
    })
    .toSorted((a, b) => a.rank - b.rank || a.target.name.length - b.target.name.length)
    .slice(0, MAX_RESULTS)
    .map(({ target }) => target);
}
