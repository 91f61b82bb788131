// What everyday tasks consist of: real clicks and keys, and waiting for what the screen answers.
import type { Browser, Locator, Page } from "playwright-core";

/** What tasks need besides the page on which an administrator has logged in. */
export interface World {
  readonly browser: Browser;
  readonly apiUrl: string;
  /** Where a channel may send a message, and gets an answer. */
  readonly webhook: string;
}

export interface Task {
  readonly name: string;
  /** Its number in the list of 24 tasks that were written down before the console was first judged (docs/console.md). */
  readonly first24?: number;
  /** The most clicks that it may take. */
  readonly most: number;
  readonly run: (page: Page, world: World) => Promise<unknown>;
}

/**
 * A click counts, and so does what is typed into one field, with the click into it and its Enter, or chosen in one list; and Ctrl-K.
 * Playwright stops a click that would hit another element than the one that it looked for, because the page has just moved, and tries again:
 * such a click never bubbles.
 */
export const COUNTER = `
  window.clicks = 0;
  let field;
  const place = (event) => event.composedPath().find((part) => part.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(part.tagName ?? ""));
  addEventListener("pointerdown", (event) => { window.clicks += 1; field = place(event); });
  addEventListener("input", (event) => { if (place(event) !== field) window.clicks += 1; field = place(event); }, true);
  addEventListener("keydown", ({ ctrlKey, key }) => { if (ctrlKey && key === "k") window.clicks += 1; }, true);
`;

export async function button(page: Page, name: string | RegExp): Promise<void> {
  await page
    .getByRole("button", { name, exact: typeof name === "string" })
    .first()
    .click();
}

export async function link(page: Page, name: string | RegExp): Promise<void> {
  await page
    .locator("main")
    .getByRole("link", { name, exact: typeof name === "string" })
    .first()
    .click();
}

/** A link changes the screen after the click: until then, the screen before is shown. `title`: of the screen, if it differs from the link. */
export async function go(page: Page, screen: string, title = screen): Promise<void> {
  await page
    .getByRole("navigation", { name: "Screens" })
    // The number of firing alerts follows the name.
    .getByRole("link", { name: new RegExp(`^${screen}`) })
    .click();
  await page.getByRole("heading", { name: title, exact: true, level: 1 }).waitFor();
}

/** Replaces what is in a field by real keys. */
export async function type(page: Page, field: Locator, text: string): Promise<void> {
  await field.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type(text);
}

export const text = async (page: Page, words: string | RegExp): Promise<void> =>
  await page.locator("main").getByText(words).first().waitFor();

export const heading = async (page: Page, name: string | RegExp): Promise<void> =>
  await page.getByRole("heading", { name }).first().waitFor();

export const query = (page: Page): Locator => page.getByRole("combobox", { name: "Query" });

/** A click into the middle of the row, far from the name. */
export const firstTrace = (page: Page): Locator => page.getByRole("grid", { name: "Traces" }).getByRole("row").first();
