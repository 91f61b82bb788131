// Lists resources that users create and remove: users, keys, tokens, organisations. Invariant: read-only users see neither action.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Removal } from "../parts/removal.tsx";
import { useLoaded } from "../state/loaded.ts";
import { Command, Options, Problem, Status, Table } from "../parts/common.tsx";
import { visible } from "../parts/text.ts";
import { call, wholeList } from "../state/api.ts";
import { submitBy, useSending } from "../state/sending.ts";
import { mayWrite } from "../state/session.ts";
import { moment } from "../state/time.ts";

export interface Column<T> {
  readonly name: string;
  readonly of: (row: T) => string;
  /** Shown instead to users who may write. */
  readonly control?: (row: T, onChanged: () => void) => ComponentChildren;
  /** A time, which stays on one line. */
  readonly isMoment?: true;
}

/** `none`: shown for a row without the time. */
export function momentColumn<T>(name: string, at: (row: T) => string | null, none = "not yet"): Column<T> {
  const of = (row: T): string => {
    const time = at(row);
    return time === null ? none : moment(time);
  };
  return { name, of, isMoment: true };
}

export interface Field {
  readonly name: string;
  readonly label: string;
  readonly type?: "text" | "email" | "password";
  /** The allowed values; the first one is the default. */
  readonly choices?: readonly string[];
}

/** The form for a new one, sent by POST of `path`. */
export interface CreateForm {
  readonly label: string;
  readonly fields: readonly Field[];
  /** The request's body, if it differs from the typed fields. */
  readonly bodyOf?: (typed: Readonly<Record<string, string>>) => unknown;
  /** The field of the response that is returned only once, and the label that it is shown with. */
  readonly secret?: {
    readonly name: string;
    readonly label: string;
    /** The text to copy; the secret itself by default. */
    readonly textOf?: (secret: string) => string;
    readonly more?: (secret: string) => ComponentChildren;
  };
}

export interface ResourceListProps<T> {
  readonly title: string;
  /** The list is read with GET; a row is removed with DELETE of `path/id`. */
  readonly path: string;
  readonly columns: readonly Column<T>[];
  readonly idOf: (row: T) => string;
  /** The consequences to confirm before a row is removed; undefined: it cannot be removed. */
  readonly removal?: (row: T) => string | undefined;
  readonly createForm?: CreateForm;
}

export function ResourceList<T>({ title, path, columns, idOf, removal, createForm }: ResourceListProps<T>) {
  const found = useLoaded(path, async (signal) => (await wholeList<T>(path, signal)).rows);
  const secret = useSignal<string | undefined>(undefined);
  const rows = found.value.value ?? [];
  return (
    <>
      <section class="card" aria-label={title}>
        <h2>{title}</h2>
        <Status of={found} empty={rows.length === 0 && "None."}>
          {rows.length > 0 && (
            <Rows title={title} path={path} rows={rows} columns={columns} idOf={idOf} removal={removal} onChanged={found.reload} />
          )}
        </Status>
        {mayWrite.value && createForm && (
          <Make
            path={path}
            createForm={createForm}
            onMade={(answer) => {
              secret.value = createForm.secret && String(answer[createForm.secret.name]);
              found.reload();
            }}
          />
        )}
      </section>
      {createForm?.secret && secret.value && (
        <>
          <Command label={createForm.secret.label} text={createForm.secret.textOf?.(secret.value) ?? secret.value} />
          {createForm.secret.more?.(secret.value)}
        </>
      )}
    </>
  );
}

interface RowsProps<T> extends Omit<ResourceListProps<T>, "createForm"> {
  readonly rows: readonly T[];
  readonly onChanged: () => void;
}

function Rows<T>({ title, path, rows, columns, idOf, removal, onChanged }: RowsProps<T>) {
  const hasRemoval = removal !== undefined && mayWrite.value;
  const heads = columns.map(({ name }) => name);
  return (
    <Table title={title} heads={hasRemoval ? [...heads, <span class="unseen">remove</span>] : heads}>
      {rows.map((row) => (
        <tr key={idOf(row)}>
          {columns.map(({ name, of, control, isMoment }) => (
            <td key={name} class={isMoment ? "moment" : ""}>
              {(mayWrite.value && control?.(row, onChanged)) || <bdi>{visible(of(row))}</bdi>}
            </td>
          ))}
          {hasRemoval && (
            <td class="actions">
              {removal(row) && (
                <Removal
                  label="Remove"
                  fullLabel={`Remove ${visible(columns[0]?.of(row) ?? "")}`}
                  class="small"
                  path={`${path}/${idOf(row)}`}
                  onRemoved={onChanged}
                >
                  {visible(removal(row) ?? "")}
                </Removal>
              )}
            </td>
          )}
        </tr>
      ))}
    </Table>
  );
}

interface MakeProps {
  readonly path: string;
  readonly createForm: CreateForm;
  readonly onMade: (answer: Readonly<Record<string, unknown>>) => void;
}

/** A form in one line. */
function Make({ path, createForm: { label, fields, bodyOf }, onMade }: MakeProps) {
  const { send, error } = useSending(async (form: HTMLFormElement) => {
    const typed = Object.fromEntries(new FormData(form)) as Record<string, string>;
    onMade(await call(path, { method: "POST", body: bodyOf?.(typed) ?? typed }));
    form.reset();
  });
  return (
    <form class="row" onSubmit={submitBy(send)}>
      {fields.map((field) => (
        <label key={field.name}>
          {field.label}
          <Input {...field} />
        </label>
      ))}
      <button type="submit" class="primary">
        {label}
      </button>
      <Problem words={error} />
    </form>
  );
}

function Input({ name, type = "text", choices }: Field) {
  if (!choices) return <input name={name} type={type} required autoComplete={type === "password" ? "new-password" : "off"} />;
  return (
    <select name={name}>
      <Options of={choices} />
    </select>
  );
}
