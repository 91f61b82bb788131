// Lists resources that users create and remove: users, keys, tokens, organisations. Invariant: read-only users see neither action.
import { Card, RemoveButton, CopyBlock, Problem, Status, Table, Button, Field, SavingForm, Select, visible } from "../parts/index.ts";
import type { Column } from "../parts/index.ts";
import { type Signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLoaded, call, wholeList, useSending, mayWrite, timestampText } from "../state/index.ts";

/** `none`: shown for a row without the time. */
export function timeColumn<R>(head: string, at: (row: R) => string | null, none = "not yet"): Column<R> {
  const text = (time: string | null): string => (time === null ? none : timestampText(time));
  return { head, kind: "timestamp", cell: (row) => text(at(row)) };
}

export interface CreateField {
  readonly name: string;
  readonly label: string;
  readonly type?: "text" | "email" | "password";
  /** The allowed values; the first one is the default. */
  readonly choices?: readonly string[];
  readonly isOptional?: boolean;
  readonly placeholder?: string;
}

/** The form for a new resource, sent by POST of `path`. */
export interface CreateForm {
  readonly label: string;
  readonly fields: readonly CreateField[];
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

export interface ResourceListProps<R> {
  readonly title: string;
  /** The list is read with GET; a row is removed with DELETE of `path/id`. */
  readonly path: string;
  readonly columns: readonly Column<R>[];
  /** Default: its `id`. */
  readonly idOf?: (row: R) => string;
  /** Names the row in the label of its button. Default: its `name`. */
  readonly nameOf?: (row: R) => string;
  /** The consequences to confirm before a row is removed; undefined: it cannot be removed. */
  readonly removal?: (row: R) => string | undefined;
  readonly createForm?: CreateForm;
  /** The secret of a row is replaced with POST of this path; the new one is shown as after `createForm`. */
  readonly rotationPath?: (row: R) => string;
  /** A change of the list by a cell increments it. */
  readonly changes?: Signal<number>;
}

export function ResourceList<R>(props: ResourceListProps<R>) {
  const { title, path, columns, removal, createForm, rotationPath, changes } = props;
  const { idOf = (row: R) => String((row as { id?: string }).id), nameOf = (row: R) => String((row as { name?: string }).name) } = props;
  const loaded = useLoaded(`${path} ${changes?.value}`, async (signal) => (await wholeList<R>(path, signal)).rows);
  const secret = useSignal<string | undefined>(undefined);
  const rows = loaded.value.value ?? [];
  const showSecret = (response: Readonly<Record<string, unknown>>): void => {
    secret.value = createForm?.secret && String(response[createForm.secret.name]);
    loaded.reload();
  };
  const rotation = useSending(async (path: string) => showSecret(await call(path, { method: "POST", body: {} })));
  const removalColumn: Column<R> = {
    head: <span class="unseen">remove</span>,
    class: "actions",
    cell: (row) => {
      const consequences = removal?.(row);
      if (!consequences) return null;
      const fullLabel = `Remove ${visible(nameOf(row))}`;
      return (
        <>
          {rotationPath && (
            <Button
              class="small"
              aria-label={`Rotate ${visible(nameOf(row))}`}
              title="Creates a new secret; the present one is accepted for 24 more hours"
              onClick={() => void rotation.send(rotationPath(row))}
              text="Rotate"
            />
          )}
          <RemoveButton label="Remove" fullLabel={fullLabel} class="small" path={`${path}/${idOf(row)}`} onRemoved={loaded.reload}>
            {visible(consequences)}
          </RemoveButton>
        </>
      );
    },
  };
  return (
    <>
      <Card title={title}>
        <Status of={loaded} empty={rows.length === 0 && "None."}>
          <Table title={title} rows={rows} columns={removal && mayWrite.value ? [...columns, removalColumn] : columns} keyOf={idOf} />
        </Status>
        <Problem message={rotation.error} />
        {mayWrite.value && createForm && <CreateRow path={path} createForm={createForm} onCreated={showSecret} />}
      </Card>
      {createForm?.secret && secret.value && (
        <>
          <CopyBlock label={createForm.secret.label} text={createForm.secret.textOf?.(secret.value) ?? secret.value} />
          {createForm.secret.more?.(secret.value)}
        </>
      )}
    </>
  );
}

interface CreateRowProps {
  readonly path: string;
  readonly createForm: CreateForm;
  readonly onCreated: (response: Readonly<Record<string, unknown>>) => void;
}

function CreateRow({ path, createForm: { label, fields, bodyOf }, onCreated }: CreateRowProps) {
  const save = async (form: HTMLFormElement): Promise<void> => {
    const typed = Object.fromEntries(new FormData(form)) as Record<string, string>;
    onCreated(await call(path, { method: "POST", body: bodyOf?.(typed) ?? typed }));
    form.reset();
  };
  return (
    <SavingForm layout="row" label={label} save={save}>
      {fields.map(({ name, label: fieldLabel, type = "text", choices, isOptional, placeholder }) =>
        choices ? (
          <Select key={name} label={fieldLabel} name={name} of={choices} />
        ) : (
          <Field
            key={name}
            label={fieldLabel}
            name={name}
            type={type}
            required={!isOptional}
            {...(placeholder && { placeholder, size: placeholder.length })}
            {...(type === "password" && { autoComplete: "new-password" })}
          />
        ),
      )}
    </SavingForm>
  );
}
