// The fields of one record or span as a table. Invariant: a value is always shown as text, and at most MAX_CHARACTERS of it are drawn.
import { type ComponentChildren, Fragment } from "preact";
import { SenderText } from "./common.tsx";
import { visible } from "./text.ts";

const MAX_CHARACTERS = 10_000;

interface FieldTableProps {
  readonly title?: string | undefined;
  readonly of: readonly (readonly [name: string, value: string])[];
  readonly links: (name: string, value: string) => ComponentChildren;
  readonly actions?: (name: string, value: string) => ComponentChildren;
}

export function FieldTable({ title, of, links, actions }: FieldTableProps) {
  return (
    <table class="fields">
      {title && <caption>{title}</caption>}
      <tbody>
        {of.map(([name, value]) => (
          <tr key={name}>
            <th scope="row">
              <Name text={name.replace(/^label\./, "")} />
            </th>
            <td>
              <Value text={value.slice(0, MAX_CHARACTERS)} />
              {links(name, value)}
            </td>
            {actions && <td class="actions">{actions(name, value)}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A long name is broken after a dot. */
function Name({ text }: { text: string }) {
  return (
    <bdi dir="auto">
      {visible(text)
        .split(/(?<=\.)/)
        .map((part, at) => (
          <Fragment key={at}>
            {part}
            <wbr />
          </Fragment>
        ))}
    </bdi>
  );
}

/** Line breaks, as in stack traces, are kept. */
function Value({ text }: { text: string }) {
  if (!text.includes("\n")) return <SenderText text={text} />;
  return (
    <pre class="lines" tabIndex={0}>
      <SenderText text={text} />
    </pre>
  );
}
