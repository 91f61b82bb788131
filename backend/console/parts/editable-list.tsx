// A list of alerting resources with the form of one of them next to it. The address names the open one; `new` is the form of another.
// Invariant: users who may only read see just the list, except where their form says what they may not change.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { ConsoleQuery } from "../../client/console-address.ts";
import type { Loaded } from "../state/loaded.ts";
import { address, route } from "../state/route.ts";
import { mayWrite } from "../state/session.ts";
import { SenderText, Status } from "./common.tsx";
import { CreateLink } from "./controls.tsx";
import { RemoveButton, type RemoveButtonProps } from "./removal.tsx";
import { Side, Split } from "./side.tsx";
import { type Column, Table } from "./table.tsx";

export interface Removal extends Pick<RemoveButtonProps, "path" | "before"> {
  readonly label?: string;
  /** The consequences. */
  readonly text: ComponentChildren;
}

export interface EditableListProps<R> {
  /** `channel`; without spaces, it is also the parameter of the address. */
  readonly noun: string;
  /** The address of the list, without an open row. */
  readonly list: ConsoleQuery;
  readonly loaded: Loaded<unknown>;
  readonly rows: readonly R[];
  readonly title: string;
  readonly columns: readonly Column<R>[];
  readonly status: ComponentChildren;
  readonly extras?: ComponentChildren;
  readonly empty?: ComponentChildren;
  readonly note?: ComponentChildren;
  /** The open row need not be among `rows`, which may be filtered. */
  readonly all?: readonly R[];
  /** `saved`: call it with the stored row; returns its address. */
  readonly form: (row: R | undefined, saved: (stored: R) => string) => ComponentChildren;
  readonly headingOf: (row: R) => string;
  readonly removal: (row: R) => Removal | false | undefined;
  readonly isFormReadable?: boolean;
}

export function EditableList<R extends { readonly id?: string }>(props: EditableListProps<R>) {
  const { noun, list, loaded, rows, all = rows, form, headingOf, isFormReadable = false } = props;
  const created = useSignal<R | undefined>(undefined);
  const parameter = noun.replace(" ", "_");
  const { query } = route.value;
  const id = query.get(parameter);
  const chosen = [...all, created.value].find((row) => row?.id === id);
  const isOpen = (mayWrite.value || isFormReadable) && (chosen !== undefined || id === "new");
  const listHref = address("alerts", list);
  const hrefOf = (id: string): string => address("alerts", { ...list, [parameter]: id });
  const saved = (stored: R): string => {
    created.value = stored;
    loaded.reload();
    return hrefOf(stored.id ?? "");
  };
  const removal = chosen && mayWrite.value && props.removal(chosen);
  return (
    <>
      <div class="bar">
        {/* Without an answer, every count would be 0. */}
        <p role="status">{loaded.value.value !== undefined && props.status}</p>
        {loaded.value.value !== undefined && props.extras}
        <CreateLink href={hrefOf("new")} text={`Create ${noun}`} />
      </div>
      <Split
        side={
          isOpen && (
            <Side
              key={`${id} ${query.get("matchers")}`}
              label={chosen ? `${noun[0]?.toUpperCase()}${noun.slice(1)}` : `New ${noun}`}
              title={chosen ? headingOf(chosen) : `New ${noun}`}
              onClose={listHref}
            >
              {form(chosen, saved)}
              {removal && (
                <RemoveButton
                  label={removal.label ?? `Remove ${noun}`}
                  path={removal.path}
                  before={removal.before}
                  onRemoved={() => (loaded.reload(), listHref)}
                >
                  {removal.text}
                </RemoveButton>
              )}
            </Side>
          )
        }
      >
        <Status of={loaded} empty={props.empty}>
          <Table title={props.title} rows={rows} columns={props.columns} isChosen={(row) => row.id === id} />
          {props.note}
        </Status>
      </Split>
    </>
  );
}

/** A link to the form of a row, for users who may open it. */
export function EditLink({ href, text }: { href: string; text: ComponentChildren }) {
  const shown = typeof text === "string" ? <SenderText text={text} /> : text;
  return mayWrite.value ? <a href={href}>{shown}</a> : <>{shown}</>;
}
