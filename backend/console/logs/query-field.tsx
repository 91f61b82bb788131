// The query line with completion of fields and values, as a combobox of WAI-ARIA.
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { FIELDS, filtersOf, written } from "./query-line.ts";
import { call } from "../state/api.ts";

export interface Field {
  readonly name: string;
  readonly values: readonly { readonly value: string; readonly count: number }[];
}

interface Suggestion {
  readonly text: string;
  readonly hint: string;
}

const MOST_SHOWN = 12;

interface QueryFieldProps {
  readonly line: string;
  readonly range: () => [string, string][];
  readonly onLine: (line: string) => void;
}

export function QueryField(props: QueryFieldProps) {
  const { input, typed, error, found, chosen, isOpen, send, open, take, onKeyDown } = useQueryField(props);
  return (
    <div class="query">
      <input
        ref={input}
        data-query
        role="combobox"
        aria-label="Query"
        aria-expanded={found.length > 0}
        aria-controls="suggestions"
        aria-autocomplete="list"
        aria-activedescendant={found[chosen.value] ? `suggestion-${chosen.value}` : undefined}
        aria-invalid={error.value !== undefined}
        autoComplete="off"
        spellcheck={false}
        placeholder={"timeout level:error app=cart -debug /user \\d+/"}
        value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          chosen.value = -1;
          open();
        }}
        onKeyDown={onKeyDown}
        onBlur={() => (isOpen.value = false)}
      />
      <button type="button" class="primary" onClick={send}>
        Search
      </button>
      {error.value && (
        <p class="problem" role="alert">
          {error.value}
        </p>
      )}
      <Completions found={found} chosen={chosen.value} onTake={take} />
    </div>
  );
}

/** What is typed, what would complete it, and what keys do. */
function useQueryField({ line, range, onLine }: QueryFieldProps) {
  const typed = useSignal(line);
  const error = useSignal<string | undefined>(undefined);
  const fields = useSignal<readonly Field[]>([]);
  const chosen = useSignal(-1);
  const isOpen = useSignal(false);
  const input = useRef<HTMLInputElement>(null);
  const asked = useRef(line);
  // Only a line that has changed, and with the page: who types at once after `/` would lose the first letters.
  useLayoutEffect(() => {
    if (asked.current !== line) typed.value = asked.current = line;
  }, [line]);
  const found = isOpen.value
    ? suggestions(wordAt(typed.value, input.current?.selectionStart ?? typed.value.length).word, fields.value)
    : [];
  const send = (): void => {
    try {
      filtersOf(typed.value);
      error.value = undefined;
      isOpen.value = false;
      onLine(typed.value.trim());
    } catch (failure) {
      error.value = (failure as Error).message;
    }
  };
  const open = (): void => {
    if (isOpen.value) return;
    isOpen.value = true;
    chosen.value = -1;
    void call<Field[]>("/query/logs/fields", { query: range() }).then(
      (known) => (fields.value = known),
      () => undefined,
    );
  };
  const take = ({ text }: Suggestion): void => {
    const { start, end } = wordAt(typed.value, input.current?.selectionStart ?? typed.value.length);
    const isWhole = !/[:=]$/.test(text);
    typed.value = `${typed.value.slice(0, start)}${text}${isWhole ? " " : ""}${typed.value.slice(end).trimStart()}`;
    chosen.value = -1;
    input.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const picked = found[chosen.value];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      open();
      const step = event.key === "ArrowDown" ? 1 : -1;
      chosen.value = Math.max(-1, Math.min(found.length - 1, chosen.value + step));
    } else if ((event.key === "Enter" || event.key === "Tab") && isOpen.value && picked) take(picked);
    else if (event.key === "Enter") send();
    else if (event.key === "Escape") isOpen.value = false;
    else return;
    event.preventDefault();
  };
  return { input, typed, error, found, chosen, isOpen, send, open, take, onKeyDown };
}

function Completions({
  found,
  chosen,
  onTake,
}: {
  found: readonly Suggestion[];
  chosen: number;
  onTake: (suggestion: Suggestion) => void;
}) {
  return (
    <ul id="suggestions" role="listbox" aria-label="Completions" hidden={found.length === 0}>
      {found.map((suggestion, at) => (
        // The field keeps the keys: a list of choices has none of its own.
        <li
          key={suggestion.text}
          id={`suggestion-${at}`}
          role="option"
          aria-selected={at === chosen}
          onPointerDown={(event) => (event.preventDefault(), onTake(suggestion))}
        >
          <bdi>{suggestion.text}</bdi> <span class="quiet">{suggestion.hint}</span>
        </li>
      ))}
    </ul>
  );
}

function wordAt(line: string, caret: number): { word: string; start: number; end: number } {
  const start = line.slice(0, caret).search(/\S*$/);
  const end = caret + (/^\S*/.exec(line.slice(caret))?.[0].length ?? 0);
  return { word: line.slice(start, end), start, end };
}

/** Names as long as none is whole, then values of that name. */
function suggestions(word: string, fields: readonly Field[]): Suggestion[] {
  const [, not = "", name = "", sign, begun = ""] = /^(-?)([\w.\-/]*?)(?:([:=])"?(.*?)"?)?$/.exec(word) ?? [];
  if (sign) {
    const field = fields.find((known) => known.name === (sign === "=" ? `label.${name}` : name));
    const matching = field?.values.filter(({ value }) => value.toLowerCase().includes(begun.toLowerCase())) ?? [];
    const kind = sign === "=" ? "label" : "field";
    return matching
      .slice(0, MOST_SHOWN)
      .map(({ value, count }) => ({ text: written({ kind, not: not === "-", name, value }), hint: String(count) }));
  }
  const names = fields.flatMap((field) => {
    const label = field.name.startsWith("label.") ? `${field.name.slice("label.".length)}=` : undefined;
    const own = (FIELDS as readonly string[]).includes(field.name) && !not ? `${field.name}:` : undefined;
    const text = label ?? own;
    return text ? [{ text: `${not}${text}`, hint: `${field.values.length} values` }] : [];
  });
  return names.filter(({ text }) => text.toLowerCase().includes(`${not}${name}`.toLowerCase())).slice(0, MOST_SHOWN);
}
