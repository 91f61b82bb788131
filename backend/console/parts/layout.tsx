// The frame of a screen: its bar, with the title, what belongs to it, and the time range at the end; and cards with a heading.
import type { ComponentChildren } from "preact";
import { SenderText } from "./common.tsx";
import { TimePicker } from "./time-picker.tsx";

interface BarProps {
  readonly title: ComponentChildren;
  /** Refreshes the screen. Set it on a screen that has a time range. */
  readonly onNow?: () => void;
  readonly children?: ComponentChildren;
}

export function Bar({ title, onNow, children }: BarProps) {
  return (
    <div class="bar">
      <h1 id="title">{typeof title === "string" ? <SenderText text={title} /> : title}</h1>
      {children}
      {onNow && <TimePicker onNow={onNow} />}
    </div>
  );
}

interface CardProps {
  readonly title: string;
  /** The name for screen readers. Default: the title. */
  readonly label?: string;
  /** The page that shows more of it. */
  readonly href?: string;
  readonly class?: string;
  readonly children: ComponentChildren;
}

export function Card({ title, label = title, href, class: name = "", children }: CardProps) {
  return (
    <section class={`card ${name}`} aria-label={label}>
      <h2>{href === undefined ? title : <a href={href}>{title}</a>}</h2>
      {children}
    </section>
  );
}
