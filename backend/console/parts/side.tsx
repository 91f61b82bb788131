// The panel next to a list, with the details of one row. Invariant: keyboard focus moves into the panel when it opens, and back to where it
// was when the panel closes.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { visible } from "./text.ts";

export interface SideProps {
  /** Label for screen readers. */
  readonly label: string;
  readonly title: string;
  /** The address with the panel closed. */
  readonly closed: string;
  readonly children: ComponentChildren;
}

export function Side({ label, title, closed, children }: SideProps) {
  const element = useRef<HTMLElement>(null);
  const before = useRef(document.activeElement);
  useEffect(() => {
    const [side, other] = [element.current, before.current];
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
        <a class="button plain" aria-label="Close" href={closed}>
          ✕
        </a>
      </header>
      {children}
    </aside>
  );
}
