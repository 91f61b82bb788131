// The pages of single sign-on: that on which a person lets a command line in, and those that say why there is no session. Invariant: none
// has a script; nothing of one comes from elsewhere; no other page frames it; what others named is text.
import { createHash } from "node:crypto";

const STYLE = `:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 34rem; margin: 10vh auto; padding: 0 1rem; overflow-wrap: anywhere; }
.code { font: 1.75rem ui-monospace, monospace; letter-spacing: 0.05em; }
button { font: inherit; padding: 0.5rem 1rem; }`;
const STYLE_HASH = createHash("sha256").update(STYLE).digest("base64");

/** Of its answer. `formAction`: sources as of Content-Security-Policy. */
export function pageHeaders(formAction: string): Record<string, string> {
  return {
    "content-security-policy": `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; form-action ${formAction}; base-uri 'none'; frame-ancestors 'none'`,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
  };
}

/** Both are markup. */
export function htmlOf(title: string, content: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} – AtherOps</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${title}</h1>
${content}
</main>
</body>
</html>
`;
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

export function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}
