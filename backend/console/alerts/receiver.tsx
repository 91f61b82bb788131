// Whom a rule notifies, in its form: the routes decide, or the rule has a route of its own, which names it by the label alertname.
// Invariant: the route is changed only after the rule was saved, and only if the user chose another channel or name.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { TakenRoutes } from "../notification/route-test.tsx";
import { type Channel, type NotificationRoute, ROUTES, listChannels } from "../notification/resources.ts";
import { Checkbox, Problem, type Removal, Status, Select, visible } from "../parts/index.ts";
import { call, saveResource, type Loaded, useLoaded } from "../state/index.ts";
import { RULES, type RuleWithStatus } from "./console-rule.ts";

export interface Receivers {
  readonly channels: readonly Channel[];
  readonly own: NotificationRoute | undefined;
}

/** `ruleName`: empty for a new rule. */
export function useReceivers(ruleName: string): Loaded<Receivers> {
  return useLoaded(`receivers of ${ruleName}`, async (signal) => {
    const [channels, own] = await Promise.all([listChannels(signal), findOwnRoute(ruleName, signal)]);
    return { channels, own };
  });
}

async function findOwnRoute(ruleName: string, signal?: AbortSignal): Promise<NotificationRoute | undefined> {
  const routes = await call<NotificationRoute[]>(ROUTES, { signal });
  return routes.find((route) => ruleName !== "" && isOwn(route, ruleName));
}

function isOwn({ matchers: [first, ...more] }: NotificationRoute, ruleName: string): boolean {
  return first?.label === "alertname" && first.op === "=" && first.value === ruleName && more.length === 0;
}

export const RECEIVER = "receiver";

/** `labels`: those of an alert of this rule, one name=value per line. */
export function ReceiverField({ of, labels }: { of: Loaded<Receivers>; labels: string }) {
  const { channels = [], own } = of.value.value ?? {};
  const names = channels.map(({ id, name }) => [id, name] as const);
  return (
    <fieldset>
      <legend>Who is notified</legend>
      <Status of={of}>
        <Select label="Channel" name={RECEIVER} of={[["", "as the routes say"], ...names]} initial={own?.channel_ids[0] ?? ""} />
        {!own && <TakenRoutes typed={labels} channels={channels} />}
      </Status>
    </fieldset>
  );
}

/** The removal of a rule of `rules`, with its own route unless the user keeps that, or another rule has the same name. */
export function useRemoval(rules: readonly RuleWithStatus[]) {
  const keepsRoute = useSignal(false);
  return ({ id, name, slo_id, status }: RuleWithStatus): Removal | undefined => {
    if (slo_id !== undefined) return undefined;
    const hasName = rules.filter((rule) => rule.name === name).length === 1;
    const before = async (): Promise<void> => {
      if (hasName && !keepsRoute.peek()) await saveReceiver(name, "", await findOwnRoute(name));
    };
    const text = (
      <>
        {visible(`${name} is no longer evaluated. This cannot be undone.`)}
        {hasName && <RouteRemoval ruleName={name} isFiring={status?.state === "firing"} keepsRoute={keepsRoute} />}
      </>
    );
    return { path: `${RULES}/${id}`, before, text };
  };
}

interface RouteRemovalProps {
  readonly ruleName: string;
  readonly isFiring: boolean;
  readonly keepsRoute: Signal<boolean>;
}

function RouteRemoval({ ruleName, isFiring, keepsRoute }: RouteRemovalProps) {
  useEffect(() => void (keepsRoute.value = false), []);
  const loaded = useReceivers(ruleName);
  const { channels = [], own } = loaded.value.value ?? {};
  if (!own) return <Problem message={loaded.error.value} />;
  const receivers = channels.filter(({ id }) => own.channel_ids.includes(id)).map(({ name }) => name);
  return (
    <>
      <Checkbox
        label={visible(`Remove its route to ${receivers.join(", ") || "no channel"} too`)}
        checked={!keepsRoute.value}
        onChange={() => (keepsRoute.value = !keepsRoute.value)}
      />
      {isFiring && !keepsRoute.value && <span class="is-warn">Without the route, no message says that its firing alerts have ended.</span>}
    </>
  );
}

/** Creates, changes or removes the rule's own route. */
export async function saveReceiver(ruleName: string, channelId: string, own: NotificationRoute | undefined): Promise<void> {
  if (own && channelId === "") return await call<void>(`${ROUTES}/${own.id}`, { method: "DELETE" });
  if (channelId === "" || (own?.channel_ids[0] === channelId && isOwn(own, ruleName))) return;
  const matchers = [{ label: "alertname", op: "=", value: ruleName }];
  const { id, is_default: _default, created_at: _created, ...body }: Partial<NotificationRoute> = own ?? { position: 0 };
  await saveResource(ROUTES, id, { ...body, matchers, channel_ids: [channelId] });
}
