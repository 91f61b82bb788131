// The colours of series. Invariant: series with the same name have the same colour in all charts of a page. It follows from the name, so it
// is usually also the same on other pages.
import { computed } from "@preact/signals";
import { route } from "../state/route.ts";
import { pickColour } from "./pick-colour.ts";

/** More names than this are not distinguished by colour anyway. */
const MAX_NAMES = 1000;

const page = computed(() => `${route.value.screen} ${route.value.id}`);
let coloured = { page: "", indexes: new Map<string, number>() };

/** The custom property with the colour of a series, service or other item on the current page. */
export function colourProperty(name: string): string {
  if (coloured.page !== page.peek()) coloured = { page: page.peek(), indexes: new Map() };
  const index = pickColour(name, coloured.indexes);
  if (coloured.indexes.size < MAX_NAMES) coloured.indexes.set(name, index);
  return `--colour-${index}`;
}

export function colourOf(name: string): string {
  return `var(${colourProperty(name)})`;
}
