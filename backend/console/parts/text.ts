// Text as the console prints it. Invariant: text of a sender shows every character, and turns no text around it.

/** Control characters except tab and line feed, and characters that change the direction of text. */
// oxlint-disable-next-line no-control-regex -- it is what is looked for
export const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** Such as `1 host` or `2,300 spans`. */
export function counted(count: number, thing: string): string {
  return `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;
}

/** Control and direction characters as `\x1b` or `\u202e`; tabs and line breaks stay. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (char) => {
    const code = char.charCodeAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16)}`;
  });
}
