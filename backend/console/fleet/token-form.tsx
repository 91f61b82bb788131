// The form that creates a token for a sender or for Grafana. It asks for the backend's address as that program reaches it, because the browser
// may use another one.
import { Field } from "../parts/controls.tsx";
import type { ComponentChildren } from "preact";
import { SavingForm } from "../parts/saving-form.tsx";
import { formReader } from "../state/sending.ts";

export interface TokenFormProps {
  /** The program that uses the token, as in “reachable from Grafana”. */
  readonly program: string;
  /** `url` has no trailing slash. Throws an Error whose message is shown to the user. */
  readonly create: (name: string, url: string) => Promise<void>;
  /** The field called `name`, if there is one. */
  readonly children?: ComponentChildren;
}

export function TokenForm({ program, create, children }: TokenFormProps) {
  const save = async (form: HTMLFormElement): Promise<void> => {
    const typed = formReader(form);
    await create(typed("name"), typed("url").replace(/\/+$/, ""));
  };
  return (
    <SavingForm label="Create token" save={save}>
      {children}
      <Field label={`URL of this backend, as reachable from ${program}`} name="url" type="url" required defaultValue={location.origin} />
    </SavingForm>
  );
}
