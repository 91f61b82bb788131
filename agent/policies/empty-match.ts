// Whether an expression can match the empty text, read from its syntax. Invariant: an expression from an annotation is never executed here,
// because V8 needs exponential time for some; RE2, which the collector uses, does not.

/** An escaped character, a repetition, the start of a group, or one character. */
const TOKEN = /\\.|[*+?]\??|\{\d+(?:,\d*)?\}\??|\(\?:|./gsu;
const ASSERTIONS = new Set(["^", "$", String.raw`\b`, String.raw`\B`]);
/** Zero times is enough. */
const OPTIONAL = /^(?:[*?]|\{0+[,}])/;
const REPEATED = /^[+{]/;

/** One group, as far as it has been read: whether each part can match the empty text. */
interface Group {
  earlierAlternative: boolean;
  beforeLastAtom: boolean;
  lastAtom: boolean;
}

/** `pattern`: of the syntax that monitors/relabeling.ts accepts. */
export function canMatchEmptyText(pattern: string): boolean {
  const groups = [newGroup()];
  let isInClass = false;
  for (const [token] of pattern.replace(/^\(\?i\)/, "").matchAll(TOKEN)) {
    const wasInClass = isInClass;
    isInClass = isInClass ? token !== "]" : token === "[";
    // A class is one atom, which its first character adds.
    if (!wasInClass) read(token, groups);
  }
  return groups.every(isNullable);
}

function read(token: string, groups: Group[]): void {
  const group = groups.at(-1) ?? newGroup();
  if (token.startsWith("(")) groups.push(newGroup());
  else if (token === ")") {
    groups.pop();
    addAtom(groups.at(-1), isNullable(group));
  } else if (token === "|") Object.assign(group, newGroup(), { earlierAlternative: isNullable(group) });
  else if (OPTIONAL.test(token)) group.lastAtom = true;
  else if (!REPEATED.test(token)) addAtom(group, ASSERTIONS.has(token));
}

function addAtom(group: Group | undefined, isNullableAtom: boolean): void {
  if (!group) return;
  group.beforeLastAtom &&= group.lastAtom;
  group.lastAtom = isNullableAtom;
}

function isNullable({ earlierAlternative, beforeLastAtom, lastAtom }: Group): boolean {
  return earlierAlternative || (beforeLastAtom && lastAtom);
}

function newGroup(): Group {
  return { earlierAlternative: false, beforeLastAtom: true, lastAtom: true };
}
