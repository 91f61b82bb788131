// The message of a record: JSON indented, with filters for its fields; stack traces line by line; everything else as it is. Invariant: it is
// text, whatever it contains, and at most SHOWN characters of it are drawn until the rest is asked for.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Copy, Foreign } from "../parts/common.tsx";

/** More is shown on demand. */
const SHOWN = 20_000;
const LONGEST_JSON = 200_000;

export function Message({ text }: { text: string }) {
  const isWhole = useSignal(false);
  const isRaw = useSignal(false);
  useEffect(() => void ((isWhole.value = false), (isRaw.value = false)), [text]);
  const indented = indentedJson(text);
  const full = indented !== undefined && !isRaw.value ? indented : text;
  const shown = isWhole.value ? full : full.slice(0, SHOWN);
  return (
    <div class="message-whole">
      <pre tabIndex={0}>
        <Foreign text={shown} />
      </pre>
      <Copy text={text} label="Copy message" />
      {indented !== undefined && (
        <button type="button" class="small" aria-pressed={isRaw.value} onClick={() => (isRaw.value = !isRaw.value)}>
          as sent
        </button>
      )}
      {shown.length < full.length && (
        <button type="button" class="small" onClick={() => (isWhole.value = true)}>
          Show all {full.length.toLocaleString("en")} characters
        </button>
      )}
    </div>
  );
}

/** Undefined if the text is no JSON object or array. */
export function indentedJson(text: string): string | undefined {
  const trimmed = text.trim();
  if (trimmed.length > LONGEST_JSON || !/^[{[]/.test(trimmed)) return undefined;
  try {
    return JSON.stringify(JSON.parse(trimmed), undefined, 2);
  } catch {
    return undefined;
  }
}

/** The value of a field: several lines, as stack traces have them, stay lines. */
export function FieldText({ text, most }: { text: string; most: number }) {
  const shown = text.slice(0, most);
  return shown.includes("\n") ? (
    <pre class="lines" tabIndex={0}>
      <Foreign text={shown} />
    </pre>
  ) : (
    <Foreign text={shown} />
  );
}
