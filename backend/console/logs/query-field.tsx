// The query line with completion of fields, values and operators, as a combobox of WAI-ARIA.
import { Button } from "../parts/controls.tsx";
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { formatFieldName, formatTerm } from "./query-line.ts";
import { call, currentRange, rangeQuery } from "../state/index.ts";

export type Field = ApiResponses["GET /query/logs/fields"][number];

interface Suggestion {
  readonly text: string;
  readonly hint: string;
}

const MAX_SHOWN = 12;

interface QueryFieldProps {
  readonly line: string;
  readonly onLine: (line: string) => void;
  readonly problem: string | undefined;
}

export function QueryField(props: QueryFieldProps) {
  const { problem } = props;
  const { input, typed, suggestions, chosen, isOpen, send, open, take, onKeyDown } = useQueryField(props);
  return (
    <div class="query">
      <input
        ref={input}
        data-query
        role="combobox"
        aria-label="Query"
        aria-expanded={suggestions.length > 0}
        aria-controls="suggestions"
        aria-autocomplete="list"
        aria-activedescendant={suggestions[chosen.value] ? `suggestion-${chosen.value}` : undefined}
        aria-invalid={problem !== undefined}
        aria-describedby={problem === undefined ? undefined : "query-problem"}
        autoComplete="off"
        spellcheck={false}
        placeholder={"level:error,warn AND (timeout OR refused) AND NOT source:probe*"}
        value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          chosen.value = -1;
          open();
        }}
        onKeyDown={onKeyDown}
        onBlur={() => (isOpen.value = false)}
      />
      <Button class="primary" onClick={send} text="Search" />
      {problem && (
        <p class="problem" role="alert" id="query-problem">
          {problem}
        </p>
      )}
      <Completions suggestions={suggestions} chosen={chosen.value} onTake={take} />
    </div>
  );
}

function useQueryField({ line, onLine }: QueryFieldProps) {
  const typed = useSignal(line);
  const fields = useSignal<readonly Field[]>([]);
  const chosen = useSignal(-1);
  const isOpen = useSignal(false);
  const input = useRef<HTMLInputElement>(null);
  const lastLine = useRef(line);
  // Copies only a changed line, and before the browser paints. Otherwise, letters that are typed right after `/` would be lost.
  useLayoutEffect(() => {
    if (lastLine.current !== line) typed.value = lastLine.current = line;
  }, [line]);
  // There are no completions for LogQL, which has other label names and its own syntax.
  const suggestions =
    isOpen.value && !typed.value.trimStart().startsWith("{")
      ? suggest(wordAt(typed.value, input.current?.selectionStart ?? typed.value.length).word, fields.value)
      : [];
  const send = (): void => {
    isOpen.value = false;
    onLine(typed.value.trim());
  };
  const open = (): void => {
    if (isOpen.value) return;
    isOpen.value = true;
    chosen.value = -1;
    void call<Field[]>("/query/logs/fields", { query: rangeQuery(currentRange()) }).then(
      (known) => (fields.value = known),
      () => undefined,
    );
  };
  const take = ({ text }: Suggestion): void => {
    const { start, end } = wordAt(typed.value, input.current?.selectionStart ?? typed.value.length);
    const isWhole = !text.endsWith(":");
    typed.value = `${typed.value.slice(0, start)}${text}${isWhole ? " " : ""}${typed.value.slice(end).trimStart()}`;
    chosen.value = -1;
    input.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const picked = suggestions[chosen.value];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      open();
      const step = event.key === "ArrowDown" ? 1 : -1;
      chosen.value = Math.max(-1, Math.min(suggestions.length - 1, chosen.value + step));
    } else if ((event.key === "Enter" || event.key === "Tab") && isOpen.value && picked) take(picked);
    else if (event.key === "Enter") send();
    else if (event.key === "Escape") isOpen.value = false;
    else return;
    event.preventDefault();
  };
  return { input, typed, suggestions, chosen, isOpen, send, open, take, onKeyDown };
}

function Completions({
  suggestions,
  chosen,
  onTake,
}: {
  suggestions: readonly Suggestion[];
  chosen: number;
  onTake: (suggestion: Suggestion) => void;
}) {
  return (
    <ul id="suggestions" role="listbox" aria-label="Completions" hidden={suggestions.length === 0}>
      {suggestions.map((suggestion, at) => (
        // Keyboard focus stays in the field, so the choices handle no keys.
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

const OPERATORS: readonly Suggestion[] = [
  { text: "AND", hint: "both" },
  { text: "OR", hint: "either" },
  { text: "NOT", hint: "not the next condition" },
];

/** Field names until one is complete, then its values; operators where a condition may begin. */
function suggest(word: string, fields: readonly Field[]): Suggestion[] {
  const [, begin = "", name = "", sign, typed = ""] = /^([-(]*)("[^"]*"|[\w.@/-]*?)(?:(:|=|!=)(.*))?$/.exec(word) ?? [];
  if (sign) {
    const field = fields.find((known) => formatFieldName(known.name) === name);
    const [, before = "", begun = ""] = /^(\(?(?:[^,]*,)*)"?([^",]*)"?$/.exec(typed) ?? [];
    const matching = field?.values.filter(({ value }) => value.toLowerCase().includes(begun.toLowerCase())) ?? [];
    return matching.slice(0, MAX_SHOWN).map(({ value, count }) => {
      const text = formatTerm({ not: false, name: field?.name ?? "", value }).slice(name.length + 1);
      return { text: `${begin}${name}${sign}${before}${text}`, hint: count.toLocaleString("en") };
    });
  }
  const operators = OPERATORS.filter(({ text }) => begin === "" && name !== "" && text.startsWith(name));
  const names = fields.map((field) => ({ text: `${begin}${formatFieldName(field.name)}:`, hint: `${field.values.length} values` }));
  const matching = names.filter(({ text }) => text.toLowerCase().includes(`${begin}${name}`.toLowerCase()));
  return [...operators, ...matching].slice(0, MAX_SHOWN);
}
