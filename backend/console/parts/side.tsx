// A list with a panel next to it that has the details of one row. Invariant: keyboard focus moves into the panel when it opens, and back to
// where it was when the panel closes.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "./icons.tsx";
import { visible } from "./text.ts";

export interface SideProps {
  /** Label for screen readers. */
  readonly label: string;
  readonly title: string;
  /** The address without the panel. */
  readonly closeHref: string;
  readonly children: ComponentChildren;
}

/** `side`: the panel, if it is open. */
export function Split({ side, children }: { side: ComponentChildren; children: ComponentChildren }) {
  return (
    <div class={`split ${side ? "with-side" : ""}`}>
      <div>{children}</div>
      {side}
    </div>
  );
}

export function Side({ label, title, closeHref, children }: SideProps) {
  const element = useRef<HTMLElement>(null);
  const previousFocus = useRef(document.activeElement);
  useEffect(() => {
    const [side, other] = [element.current, previousFocus.current];
    if (!side) return undefined;
    // A form in the panel may already have taken the focus.
    if (!side.contains(document.activeElement)) side.focus();
    return () => {
      if (side.contains(document.activeElement) && other instanceof HTMLElement && other.isConnected) other.focus();
    };
  }, []);
  return (
    <aside class="side" aria-label={label} tabIndex={-1} ref={element}>
      <header>
        <h2>
          <bdi>{visible(title)}</bdi>
        </h2>
        <a class="button plain" aria-label="Close" href={closeHref}>
          <Icon name="close" />
        </a>
      </header>
      {children}
    </aside>
  );
}
