// Forms with edits that are not saved. Invariant: while there is one, nothing that loses it happens without a question: a link, the browser's
// buttons, closing its dialog, a reload, or closing the tab. This holds for every form without its help, except those with `data-unguarded`,
// whose text is a question, or a password of a login.

const QUESTION = "Discard your unsaved changes?";

const edited = new Set<HTMLFormElement>();

export function guardEdits(): void {
  document.addEventListener("input", ({ target }) => {
    markEdited(target instanceof Element ? target.closest("form") : null);
  });
  window.addEventListener("beforeunload", (event) => {
    if (editedIn(document).length > 0) event.preventDefault();
  });
}

export function markEdited(form: HTMLFormElement | null): void {
  if (form && form.dataset["unguarded"] === undefined) edited.add(form);
}

/** Reports an edit of a field without typing, such as a click on a button next to it or a drag. */
export function noteEdit(within: Element | null): void {
  within?.dispatchEvent(new Event("input", { bubbles: true }));
}

/** Sends the edits of a form; `send` resolves to false if that failed. The user may leave it during the request without a question. */
export async function sendEdits(form: HTMLFormElement, send: (form: HTMLFormElement) => unknown): Promise<void> {
  const wasEdited = edited.delete(form);
  if ((await send(form)) === false && wasEdited) edited.add(form);
}

/** True if there are no unsaved edits in this part of the page, or the user discards them. */
export function mayLeave(within: Node = document): boolean {
  const forms = editedIn(within);
  if (forms.length > 0 && !confirm(QUESTION)) return false;
  for (const form of forms) edited.delete(form);
  return true;
}

function editedIn(within: Node): HTMLFormElement[] {
  for (const form of edited) if (!form.isConnected) edited.delete(form);
  return [...edited].filter((form) => within.contains(form));
}
