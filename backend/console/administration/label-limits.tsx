// The limits of a reader to values of labels: as a field of forms, and as a column that administrators change.
import { useSignal } from "@preact/signals";
import { formatLabelLimits, type LabelLimits, parseLabelLimits } from "../../client/limited-labels.ts";
import { Button, Field, SavingForm, visible } from "../parts/index.ts";
import { call, formReader } from "../state/index.ts";

export const LIMITS_FIELD = {
  name: "limits",
  label: "Limits (optional)",
  isOptional: true,
  placeholder: "k8s.namespace.name=shop,web",
} as const;

/** The field of the API of a typed text; several labels are separated by spaces. Throws if the text is wrong. */
export function limitsOf(typed: string | undefined): { readonly label_limits?: LabelLimits } {
  const limits = parseLabelLimits((typed ?? "").split(/\s+/).filter(Boolean));
  return limits ? { label_limits: limits } : {};
}

export function limitsText(limits: Parameters<typeof formatLabelLimits>[0]): string {
  return visible(formatLabelLimits(limits)) || "none";
}

interface LimitsCellProps {
  readonly limits: Parameters<typeof formatLabelLimits>[0];
  /** Whose limits these are, for the labels. */
  readonly name: string;
  /** The route that replaces them; undefined: they cannot be changed. */
  readonly path: string | undefined;
  readonly onChanged: () => void;
}

export function LimitsCell({ limits, name, path, onChanged }: LimitsCellProps) {
  const isOpen = useSignal(false);
  const save = async (form: HTMLFormElement): Promise<void> => {
    const { label_limits = null } = limitsOf(formReader(form)("limits"));
    await call(path ?? "", { method: "PUT", body: { label_limits } });
    isOpen.value = false;
    onChanged();
  };
  if (!path) return <>{limitsText(limits)}</>;
  if (!isOpen.value)
    return (
      <>
        {limitsText(limits)}{" "}
        <Button class="small" text="Change" aria-label={`Change the limits of ${name}`} onClick={() => (isOpen.value = true)} />
      </>
    );
  return (
    <SavingForm layout="row" label="Save" save={save} onCancel={() => (isOpen.value = false)}>
      <Field label={`Limits of ${name}`} name="limits" defaultValue={formatLabelLimits(limits)} placeholder={LIMITS_FIELD.placeholder} />
    </SavingForm>
  );
}
