// A button that opens a panel next to it: a menu, the time range. It is the browser's own popover: Escape and a click elsewhere close it, and
// the focus returns to the button. The content exists only while it is open.
import { useSignal } from "@preact/signals";
import type { ComponentChildren, RefObject } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

const GAP_PX = 4;
const MARGIN_PX = 8;

export interface PopoverProps {
  /** The name of the panel, and of the button if its content has no text. */
  readonly label: string;
  readonly button: ComponentChildren;
  readonly buttonLabel?: string | undefined;
  readonly title?: string;
  readonly class?: string;
  readonly panelClass?: string;
  readonly children: (close: () => void) => ComponentChildren;
}

export function Popover({ label, button, buttonLabel, title, class: name, panelClass = "", children }: PopoverProps) {
  const id = useId();
  const [opener, panel] = [useRef<HTMLButtonElement>(null), useRef<HTMLDivElement>(null)];
  const isOpen = useSignal(false);
  return (
    <>
      <button
        type="button"
        ref={opener}
        class={name}
        title={title}
        aria-label={buttonLabel}
        aria-expanded={isOpen.value}
        aria-haspopup="dialog"
        popovertarget={id}
      >
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
        {isOpen.value && (
          <Opened opener={opener} panel={panel}>
            {children(() => panel.current?.hidePopover())}
          </Opened>
        )}
      </div>
    </>
  );
}

interface OpenedProps {
  readonly opener: RefObject<HTMLElement>;
  readonly panel: RefObject<HTMLElement>;
  readonly children: ComponentChildren;
}

/** Places the panel below its button, or above it if there is no room, and moves the focus into it. */
function Opened({ opener, panel, children }: OpenedProps) {
  useLayoutEffect(() => {
    const place = (): void => {
      if (!opener.current || !panel.current) return;
      const [from, { offsetWidth, offsetHeight, style }] = [opener.current.getBoundingClientRect(), panel.current];
      const below = from.bottom + GAP_PX;
      const isBelow = below + offsetHeight + MARGIN_PX <= innerHeight;
      style.left = `${Math.max(MARGIN_PX, Math.min(from.left, innerWidth - offsetWidth - MARGIN_PX))}px`;
      style.top = `${Math.max(MARGIN_PX, isBelow ? below : Math.min(from.top - GAP_PX, innerHeight - MARGIN_PX) - offsetHeight)}px`;
    };
    place();
    const find = (selector: string) => panel.current?.querySelector<HTMLElement>(selector);
    (find("[data-first]") ?? find("input, button, a, select"))?.focus();
    addEventListener("resize", place);
    return () => removeEventListener("resize", place);
  }, []);
  return <>{children}</>;
}
