// A list with a panel next to it that has the details of one row. Invariant: keyboard focus moves into the panel when it opens, and back to
// where it was when the panel closes.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { SenderText } from "./common.tsx";
import { IconButton } from "./controls.tsx";
import { Icon } from "./icons.tsx";

interface SideProps {
  readonly label: string;
  readonly title: ComponentChildren;
  /** The address without the panel, or what closes it. */
  readonly onClose: string | (() => void);
  /** Default: true. False for the details of rows that the user walks through by keys, which keep the focus. */
  readonly takesFocus?: boolean;
  readonly children: ComponentChildren;
}

export function Split({ side, children }: { side: ComponentChildren; children: ComponentChildren }) {
  return (
    <div class={`split ${side ? "with-side" : ""}`}>
      <div>{children}</div>
      {side}
    </div>
  );
}

export function Side({ label, title, onClose, takesFocus = true, children }: SideProps) {
  const element = useRef<HTMLElement>(null);
  const previousFocus = useRef(document.activeElement);
  useEffect(() => {
    const [side, other] = [element.current, previousFocus.current];
    if (!side || !takesFocus) return undefined;
    // A form in the panel may already have taken the focus.
    // On a phone, the panel is below the list, so the page scrolls to it. On wider screens, it is next to the list.
    if (!side.contains(document.activeElement)) side.focus({ preventScroll: matchMedia("(min-width: 1024px)").matches });
    return () => {
      if (side.contains(document.activeElement) && other instanceof HTMLElement && other.isConnected) other.focus();
    };
  }, []);
  return (
    <aside class="side" aria-label={label} tabIndex={-1} ref={element}>
      <header>
        <h2>{typeof title === "string" ? <SenderText text={title} /> : title}</h2>
        {typeof onClose === "string" ? (
          <a class="button plain" aria-label="Close" href={onClose}>
            <Icon name="close" />
          </a>
        ) : (
          <IconButton icon="close" class="plain" label="Close" onClick={onClose} />
        )}
      </header>
      {children}
    </aside>
  );
}
