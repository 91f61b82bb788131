// The PromQL editor: CodeMirror with Prometheus' own language, completed from the organisation's metrics and labels.
import { autocompletion, closeBrackets, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState, Prec } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { PromQLExtension } from "@prometheus-io/codemirror-promql";

export interface Editor {
  show(text: string): void;
  focus(): void;
  close(): void;
}

export interface EditorOptions {
  readonly label: string;
  readonly text: string;
  readonly onChange: (text: string) => void;
  readonly onEnter: (text: string) => void;
  /** Where completions are asked for; passed, because a module that this file shares with others would be another file of the bundle. */
  readonly url: string;
  readonly headers: () => Record<string, string>;
}

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--colour-3)" },
  { tag: tags.function(tags.variableName), color: "var(--colour-0)" },
  { tag: tags.string, color: "var(--colour-2)" },
  { tag: tags.number, color: "var(--colour-1)" },
  { tag: tags.labelName, color: "var(--colour-5)" },
  { tag: tags.comment, color: "var(--quiet)" },
]);

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--field)", fontSize: "13px", border: "1px solid var(--edge)", borderRadius: "4px" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--text)", padding: "6px 2px", minHeight: "20px" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--chosen) !important" },
  ".cm-tooltip": { color: "var(--text)", backgroundColor: "var(--card)", border: "1px solid var(--edge)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { color: "var(--text)", backgroundColor: "var(--chosen)" },
});

/** Opens the editor within `container`, in its own shadow root. */
export function openEditor(container: HTMLElement, { label, text, onChange, onEnter, url, headers }: EditorOptions): Editor {
  const root = container.shadowRoot ?? container.attachShadow({ mode: "open" });
  const promql = new PromQLExtension().setComplete({ remote: { fetchFn: asking(headers), url } });
  const enter = (view: EditorView): boolean => {
    onEnter(view.state.doc.toString());
    return true;
  };
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: text,
      extensions: [
        history(),
        bracketMatching(),
        closeBrackets(),
        autocompletion(),
        promql.asExtension(),
        syntaxHighlighting(colours),
        look,
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": label }),
        EditorView.updateListener.of((update) => void (update.docChanged && onChange(update.state.doc.toString()))),
        // Comes after the keys of the completion, which uses Enter while it is open.
        keymap.of([...completionKeymap, ...defaultKeymap.filter(({ key }) => key !== "Enter"), ...historyKeymap]),
        Prec.low(keymap.of([{ key: "Enter", run: enter }])),
      ],
    }),
  });
  return {
    show: (next) => {
      if (next !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } });
    },
    focus: () => view.focus(),
    close: () => view.destroy(),
  };
}

/** Completion sends requests with the headers that a session needs. */
function asking(headers: EditorOptions["headers"]) {
  return async (input: RequestInfo, init?: RequestInit): Promise<Response> =>
    await fetch(input, {
      ...init,
      headers: { ...Object.fromEntries(new Headers(init?.headers)), ...headers() },
      credentials: "same-origin",
    });
}
