// The form that creates a token for a sender or for Grafana. It asks for the backend's address as that program reaches it, because the browser
// may use another one.
import type { ComponentChildren } from "preact";
import { SavingForm } from "../parts/saving-form.tsx";
import { typedIn } from "../state/sending.ts";

export interface TokenFormProps {
  /** The program that uses the token, as in “as Grafana reaches it”. */
  readonly program: string;
  /** `url` has no trailing slash. Throws an Error whose message is shown to the user. */
  readonly create: (name: string, url: string) => Promise<void>;
  /** The field called `name`, if there is one. */
  readonly children?: ComponentChildren;
}

export function TokenForm({ program, create, children }: TokenFormProps) {
  const save = async (form: HTMLFormElement): Promise<void> => {
    const typed = typedIn(form);
    await create(typed("name"), typed("url").replace(/\/+$/, ""));
  };
  return (
    <SavingForm label="Make a token" save={save}>
      {children}
      <label>
        Address of this backend, as {program} reaches it
        <input name="url" type="url" required defaultValue={location.origin} />
      </label>
    </SavingForm>
  );
}
