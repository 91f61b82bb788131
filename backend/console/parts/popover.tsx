// A button that opens a panel next to it: a menu, the time range. It is the browser's own popover, placed next to its button by the style
// sheet: Escape and a click elsewhere close it, and the focus returns to the button. The content exists only while it is open.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

export interface PopoverProps {
  /** The name of the panel. */
  readonly label: string;
  readonly button: ComponentChildren;
  readonly title?: string;
  readonly class?: string;
  readonly panelClass?: string;
  readonly children: (close: () => void) => ComponentChildren;
}

export function Popover({ label, button, title, class: name, panelClass = "", children }: PopoverProps) {
  const id = useId();
  const panel = useRef<HTMLDivElement>(null);
  const isOpen = useSignal(false);
  useLayoutEffect(() => {
    const find = (selector: string) => panel.current?.querySelector<HTMLElement>(selector);
    if (isOpen.value) (find("[data-first]") ?? find("input, button, a, select"))?.focus();
  }, [isOpen.value]);
  return (
    <>
      <button type="button" class={name} title={title} aria-expanded={isOpen.value} aria-haspopup="dialog" popovertarget={id}>
        {button}
      </button>
      <div
        id={id}
        ref={panel}
        popover="auto"
        role="dialog"
        aria-label={label}
        class={`popover ${panelClass}`}
        onToggle={(event) => (isOpen.value = event.newState === "open")}
      >
        {isOpen.value && children(() => panel.current?.hidePopover())}
      </div>
    </>
  );
}
