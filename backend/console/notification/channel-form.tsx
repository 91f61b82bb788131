// The form of a channel. Invariants: a secret is written and never read back; an empty field keeps the stored one. All other settings are
// sent each time, because omitted ones are removed.
import { Checkbox, Field, Select, Tabs, TextArea, SavingForm } from "../parts/index.ts";
import { choose, saveResource, formReader } from "../state/index.ts";
import { type Channel, type ChannelKind, CHANNELS, KINDS, type CustomText } from "./resources.ts";

export interface ChannelFormProps {
  readonly channel: Channel | undefined;
  readonly kind: ChannelKind;
  readonly onSaved: (saved: Channel) => string;
}

export function ChannelForm({ channel, kind, onSaved }: ChannelFormProps) {
  const save = async (form: HTMLFormElement): Promise<string> => {
    const text = formReader(form);
    const body = {
      name: text("name"),
      kind,
      settings: settingsOf(kind, text),
      enabled: text("enabled") !== "",
      heartbeat: text("heartbeat").trim() || null,
    };
    return onSaved(await saveResource(CHANNELS, channel?.id, body));
  };
  return (
    <>
      {!channel && <Tabs label="Kind" tabs={KINDS} chosen={kind} onChoose={(name) => choose({ kind: name }, { replace: true })} />}
      <SavingForm label={channel ? "Save" : "Create"} saved="Saved." save={save} takesFocus={!channel}>
        <Field label="Name" name="name" required maxLength={200} defaultValue={channel?.name} />
        <Settings kind={kind} channel={channel} />
        {kind !== "webhook" && <CustomTextFields texts={channel?.settings ?? {}} />}
        <Field
          label="Heartbeat interval (empty: no heartbeat)"
          name="heartbeat"
          size={8}
          maxLength={40}
          placeholder="1d"
          defaultValue={channel?.heartbeat ?? ""}
        />
        <Checkbox label="enabled" name="enabled" defaultChecked={channel?.enabled ?? true} />
      </SavingForm>
    </>
  );
}

function Settings({ kind, channel }: Pick<ChannelFormProps, "kind" | "channel">) {
  const keepHint = channel ? " (empty: unchanged)" : "";
  if (kind === "webhook")
    return <Field key={kind} label="URL, https://…" name="url" type="url" required maxLength={2000} defaultValue={channel?.settings.url} />;
  if (kind === "slack" || kind === "msteams")
    return (
      <Field
        key={kind}
        label={`URL of the ${kind === "slack" ? "incoming" : "workflow's"} webhook, never shown again${keepHint}`}
        name="url"
        type="url"
        required={!channel}
        maxLength={2000}
      />
    );
  if (kind === "email")
    return (
      <TextArea
        key={kind}
        label="E-mail addresses, one per line: users of your organisation, or domains that the operator allows"
        name="to"
        rows={3}
        required
        defaultValue={(channel?.settings.to ?? []).join("\n")}
      />
    );
  const isOpsgenie = kind === "opsgenie";
  return (
    <div class="stack" key={kind}>
      <Field
        label={`Key of an ${isOpsgenie ? "API" : "Events API v2"} integration, never shown again${keepHint}`}
        name={isOpsgenie ? "api_key" : "routing_key"}
        required={!channel}
        maxLength={isOpsgenie ? 100 : 64}
      />
      <Select
        label={isOpsgenie ? "Region (jsm: Jira Service Management)" : "Region"}
        name="region"
        of={isOpsgenie ? ["us", "eu", "jsm"] : ["us", "eu"]}
        initial={channel?.settings.region ?? "us"}
      />
    </div>
  );
}

function CustomTextFields({ texts }: { texts: CustomText }) {
  return (
    <>
      <Field
        label="Title (empty: default)"
        name="title"
        maxLength={500}
        placeholder="{{ labels.team }}: {{ count }} {{ status }}"
        defaultValue={texts.title}
      />
      <TextArea
        label="Text (empty: default)"
        name="text"
        rows={3}
        maxLength={4000}
        placeholder={"{{#alerts}}{{ status }}: {{ annotations.summary }}\n{{/alerts}}"}
        defaultValue={texts.text}
      />
    </>
  );
}

function settingsOf(kind: ChannelKind, text: (name: string) => string): object {
  const optionalField = (name: string): object => (text(name).trim() === "" ? {} : { [name]: text(name).trim() });
  const customText = { ...optionalField("title"), ...optionalField("text") };
  if (kind === "webhook") return optionalField("url");
  if (kind === "slack" || kind === "msteams") return { ...optionalField("url"), ...customText };
  if (kind === "pagerduty") return { ...optionalField("routing_key"), region: text("region"), ...customText };
  if (kind === "opsgenie") return { ...optionalField("api_key"), region: text("region"), ...customText };
  const to = text("to")
    .split(/[\s,]+/)
    .filter((address) => address !== "");
  return { to, ...customText };
}
