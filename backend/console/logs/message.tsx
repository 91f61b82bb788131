// The message of a record: JSON is indented, with filters for its fields; stack traces are shown line by line; all other text is unchanged.
// Invariant: it is always shown as text, and at most SHOWN characters are drawn until the user asks for the rest.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Copy, SenderText } from "../parts/common.tsx";
import { Button, Toggle } from "../parts/controls.tsx";

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
        <SenderText text={shown} />
      </pre>
      <Copy text={text} label="Copy message" />
      {indented !== undefined && <Toggle class="small" text="Raw" isOn={isRaw.value} onToggle={(isOn) => (isRaw.value = isOn)} />}
      {shown.length < full.length && (
        <Button class="small" onClick={() => (isWhole.value = true)} text={`Show all ${full.length.toLocaleString("en")} characters`} />
      )}
    </div>
  );
}

/** Undefined if the text is not a JSON object or array. */
export function indentedJson(text: string): string | undefined {
  const trimmed = text.trim();
  if (trimmed.length > LONGEST_JSON || !/^[{[]/.test(trimmed)) return undefined;
  try {
    return JSON.stringify(JSON.parse(trimmed), undefined, 2);
  } catch {
    return undefined;
  }
}
