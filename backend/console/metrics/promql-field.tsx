// A field for PromQL. The editor with completion is loaded when a field is first shown; until then, or if that fails, it is a plain text
// area. It is in a shadow root, because the editor brings its own styles, which the page's policy forbids in the document.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { sessionHeaders } from "../state/api.ts";
import { PROMETHEUS } from "./prometheus.ts";
import type { Editor } from "./promql-editor.ts";

export interface PromqlFieldProps {
  readonly label: string;
  readonly value: string;
  readonly onChange?: (text: string) => void;
  /** Called for Enter; with Shift, it inserts a line break. */
  readonly onEnter?: (text: string) => void;
}

export function PromqlField({ label, value, onChange, onEnter }: PromqlFieldProps) {
  const container = useRef<HTMLDivElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const editor = useRef<Editor>();
  const handlers = useRef({ onChange, onEnter });
  handlers.current = { onChange, onEnter };
  useEffect(() => {
    let isGone = false;
    void import("./promql-editor.ts").then(
      ({ openEditor }) => {
        const [element, typed] = [container.current, area.current];
        if (isGone || !element || !typed) return undefined;
        const hadFocus = document.activeElement === typed;
        editor.current = openEditor(element, {
          label,
          text: typed.value,
          onChange: (text) => handlers.current.onChange?.(text),
          onEnter: (text) => handlers.current.onEnter?.(text),
          url: PROMETHEUS.replace("/api/v1", ""),
          headers: () => sessionHeaders(""),
        });
        typed.hidden = true;
        if (hadFocus) editor.current.focus();
        return undefined;
      },
      () => undefined,
    );
    return () => {
      isGone = true;
      editor.current?.close();
    };
  }, []);
  // With the render: a later effect could show an older value than what was typed since, and the two would replace each other for ever.
  useLayoutEffect(() => editor.current?.show(value), [value]);
  return (
    <div class="promql">
      <textarea
        ref={area}
        aria-label={label}
        rows={2}
        spellcheck={false}
        defaultValue={value}
        onInput={(event) => onChange?.(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey) return;
          event.preventDefault();
          onEnter?.(event.currentTarget.value);
        }}
      />
      <div ref={container} data-query tabIndex={-1} onFocus={() => editor.current?.focus()} />
    </div>
  );
}
