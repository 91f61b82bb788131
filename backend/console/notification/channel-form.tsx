// What is typed of a channel. Invariant: a secret is written and never read back; left empty it stays as it is.
import { SavingForm } from "../parts/saving-form.tsx";
import { call } from "../state/api.ts";
import { choose } from "../state/route.ts";
import { typedIn } from "../state/typed.ts";
import { type Channel, type ChannelKind, CHANNELS, KINDS } from "./channel.ts";

export interface ChannelFormProps {
  /** Undefined: a new one. */
  readonly channel: Channel | undefined;
  readonly kind: ChannelKind;
  readonly onSaved: (saved: Channel) => void;
}

export function ChannelForm({ channel, kind, onSaved }: ChannelFormProps) {
  const save = async (form: HTMLFormElement): Promise<void> => {
    const text = typedIn(form);
    const body = {
      name: text("name"),
      kind,
      settings: settingsOf(kind, text),
      enabled: text("enabled") !== "",
      heartbeat: text("heartbeat").trim() || null,
    };
    onSaved(
      channel
        ? await call<Channel>(`${CHANNELS}/${channel.id}`, { method: "PUT", body })
        : await call<Channel>(CHANNELS, { method: "POST", body }),
    );
  };
  return (
    <>
      {!channel && (
        <div role="group" aria-label="Kind" class="tabs">
          {KINDS.map(([name, label]) => (
            <button type="button" key={name} aria-pressed={name === kind} onClick={() => choose({ kind: name }, { replace: true })}>
              {label}
            </button>
          ))}
        </div>
      )}
      <SavingForm label={channel ? "Save" : "Add"} saved="Saved." save={save} takesFocus={!channel}>
        <label>
          Name
          <input name="name" required maxLength={200} autoComplete="off" defaultValue={channel?.name} />
        </label>
        <Settings kind={kind} channel={channel} />
        <label>
          Say that alerting lives every (empty: never)
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
          {["us", "eu"].map((region) => (
            <option key={region} selected={region === (channel?.settings.region ?? "us")}>
              {region}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

function settingsOf(kind: ChannelKind, text: (name: string) => string): object {
  if (kind === "email")
    return {
      to: text("to")
        .split(/[\s,]+/)
        .filter((address) => address !== ""),
    };
  const secret = (name: string): object => (text(name).trim() === "" ? {} : { [name]: text(name).trim() });
  return kind === "pagerduty" ? { ...secret("routing_key"), region: text("region") } : secret("url");
}
