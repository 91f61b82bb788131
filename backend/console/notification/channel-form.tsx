// The form of a channel. Invariants: a secret is written and never read back; an empty field keeps the stored one. All other settings are
// sent each time, because omitted ones are removed.
import { Options, Tabs } from "../parts/common.tsx";
import { SavingForm } from "../parts/saving-form.tsx";
import { choose } from "../state/route.ts";
import { type Channel, type ChannelKind, CHANNELS, KINDS, type OwnWords } from "./resources.ts";
import { call } from "../state/api.ts";
import { typedIn } from "../state/sending.ts";

export interface ChannelFormProps {
  /** Undefined: a new channel. */
  readonly channel: Channel | undefined;
  readonly kind: ChannelKind;
  /** Returns the address of the saved one. */
  readonly onSaved: (saved: Channel) => string;
}

export function ChannelForm({ channel, kind, onSaved }: ChannelFormProps) {
  const save = async (form: HTMLFormElement): Promise<string> => {
    const text = typedIn(form);
    const body = {
      name: text("name"),
      kind,
      settings: settingsOf(kind, text),
      enabled: text("enabled") !== "",
      heartbeat: text("heartbeat").trim() || null,
    };
    return onSaved(
      channel
        ? await call<Channel>(`${CHANNELS}/${channel.id}`, { method: "PUT", body })
        : await call<Channel>(CHANNELS, { method: "POST", body }),
    );
  };
  return (
    <>
      {!channel && <Tabs label="Kind" tabs={KINDS} chosen={kind} onChoose={(name) => choose({ kind: name }, { replace: true })} />}
      <SavingForm label={channel ? "Save" : "Add"} saved="Saved." save={save} takesFocus={!channel}>
        <label>
          Name
          <input name="name" required maxLength={200} autoComplete="off" defaultValue={channel?.name} />
        </label>
        <Settings kind={kind} channel={channel} />
        {kind !== "webhook" && <Words own={channel?.settings ?? {}} />}
        <label>
          Heartbeat interval (empty: no heartbeat)
          <input name="heartbeat" size={8} maxLength={40} placeholder="1d" autoComplete="off" defaultValue={channel?.heartbeat ?? ""} />
        </label>
        <label class="check">
          <input name="enabled" type="checkbox" defaultChecked={channel?.enabled ?? true} /> on
        </label>
      </SavingForm>
    </>
  );
}

function Settings({ kind, channel }: Pick<ChannelFormProps, "kind" | "channel">) {
  const kept = channel ? " (left empty it stays as it is)" : "";
  if (kind === "webhook")
    return (
      <label key={kind}>
        Address, https://…
        <input name="url" type="url" required maxLength={2000} autoComplete="off" defaultValue={channel?.settings.url} />
      </label>
    );
  if (kind === "slack")
    return (
      <label key={kind}>
        Address of the incoming webhook, never shown again{kept}
        <input name="url" type="url" required={!channel} maxLength={2000} autoComplete="off" spellcheck={false} />
      </label>
    );
  if (kind === "email")
    return (
      <label key={kind}>
        Addresses, one each line: of users of your organisation
        <textarea name="to" rows={3} required defaultValue={(channel?.settings.to ?? []).join("\n")} />
      </label>
    );
  return (
    <div class="stack" key={kind}>
      <label>
        Key of an Events API v2 integration, never shown again{kept}
        <input name="routing_key" required={!channel} maxLength={64} autoComplete="off" spellcheck={false} />
      </label>
      <label>
        Region
        <select name="region">
          <Options of={["us", "eu"]} chosen={channel?.settings.region ?? "us"} />
        </select>
      </label>
    </div>
  );
}

function Words({ own }: { own: OwnWords }) {
  return (
    <>
      <label>
        Title (empty: the usual one)
        <input
          name="title"
          maxLength={500}
          autoComplete="off"
          placeholder="{{ labels.team }}: {{ count }} {{ status }}"
          defaultValue={own.title}
        />
      </label>
      <label>
        Text (empty: the usual one)
        <textarea
          name="text"
          rows={3}
          maxLength={4000}
          placeholder={"{{#alerts}}{{ status }}: {{ annotations.summary }}\n{{/alerts}}"}
          defaultValue={own.text}
        />
      </label>
    </>
  );
}

function settingsOf(kind: ChannelKind, text: (name: string) => string): object {
  const given = (name: string): object => (text(name).trim() === "" ? {} : { [name]: text(name).trim() });
  const words = { ...given("title"), ...given("text") };
  if (kind === "webhook") return given("url");
  if (kind === "slack") return { ...given("url"), ...words };
  if (kind === "pagerduty") return { ...given("routing_key"), region: text("region"), ...words };
  const to = text("to")
    .split(/[\s,]+/)
    .filter((address) => address !== "");
  return { to, ...words };
}
