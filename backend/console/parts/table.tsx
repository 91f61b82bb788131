// A table of rows: its heads, a caption for who hears it, and a frame that scrolls sideways where it is wider than the screen.
import type { ComponentChildren } from "preact";

export interface TableProps {
  readonly title: string;
  readonly heads: readonly ComponentChildren[];
  readonly children: ComponentChildren;
}

export function Table({ title, heads, children }: TableProps) {
  return (
    <div class="wide" tabIndex={0}>
      <table class="rows">
        <caption class="unseen">{title}</caption>
        <thead>
          <tr>
            {heads.map((head, at) => (
              <th scope="col" key={at}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
