// Every component in every state, in both themes, at `#/parts`. For people who change the console: no link of the navigation leads here.
import type { ComponentChildren } from "preact";
import { Share } from "../entities/object-list.tsx";
import { Chip, Copy, NameLink, Problem, Skeleton, Status } from "./common.tsx";
import { Button, Checkbox, Field, IconButton, Select, Tabs, TextArea, Toggle } from "./controls.tsx";
import { Icon, ICON_NAMES, Logo } from "./icons.tsx";
import { Bar, Card } from "./layout.tsx";
import { Popover } from "./popover.tsx";
import { Sparkline } from "./sparkline.tsx";
import { Table } from "./table.tsx";
import { signal } from "@preact/signals";

const nothing = (): void => undefined;
const SERIES = Array.from({ length: 12 }, (_, at) => at);
const ROWS = [
  { id: "payment", state: "error", memory: 99 },
  { id: "checkout", state: "warn", memory: 71 },
  { id: "catalog", state: "good", memory: 44 },
] as const;
const FAILED = {
  value: signal(undefined),
  error: signal("The backend is unreachable."),
  busy: signal(false),
  loadedAt: signal(undefined),
  reload: nothing,
};

export function Gallery() {
  return (
    <section class="screen" aria-labelledby="title">
      <Bar title="Components" />
      <div class="cards">
        {(["light", "dark"] as const).map((scheme) => (
          <div class="gallery" style={{ colorScheme: scheme }} key={scheme} data-theme={scheme}>
            <Controls />
            <Marks />
            <States />
          </div>
        ))}
      </div>
    </section>
  );
}

function Part({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <Card title={title}>
      <div class="links">{children}</div>
    </Card>
  );
}

function Controls() {
  return (
    <>
      <Part title="Text">
        <Logo /> <span class="figure">20 px figure</span> <strong>15 px heading</strong> <span>13 px text</span>
        <span class="quiet">explains</span> <span class="faint">glanced at</span> <a href="#/parts">link</a> <code>code</code>{" "}
        <kbd>Ctrl K</kbd>
      </Part>
      <Part title="Buttons">
        <Button class="primary" onClick={nothing} text="Save" />
        <Button onClick={nothing} text="Cancel" />
        <Button class="danger" onClick={nothing} text="Remove" />
        <Button class="plain" onClick={nothing} text="Plain" />
        <Button class="small" onClick={nothing} text="Small" />
        <Toggle text="Pressed" isOn onToggle={nothing} />
        <Button disabled text="Disabled" />
        <IconButton icon="more" class="plain" label="More" />
        <Tabs label="Tabs" tabs={["list", "map"]} chosen="list" onChoose={nothing} />
        <Popover label="A popover" button="Popover">
          {(close) => <Button onClick={close} text="Close" />}
        </Popover>
        <Copy text="copied" />
      </Part>
      <Part title="Fields">
        <Field label="Required" required placeholder="placeholder" />
        <Field label="Invalid" aria-invalid defaultValue="12 parsecs" />
        <Field label="Read only" readOnly defaultValue="ana@shop.example" />
        <Field label="Disabled" disabled defaultValue="disabled" />
        <Select label="Choice" of={["one", "two"]} />
        <Checkbox label="Checked" defaultChecked />
        <TextArea label="Text" rows={2} />
      </Part>
    </>
  );
}

function Marks() {
  return (
    <>
      <Part title="Chips, badges, dots">
        {(["error", "warn", "good", "info", undefined] as const).map((tone) => (
          <Chip tone={tone} text={tone ?? "plain"} key={tone} />
        ))}
        <span class="badge">24</span> <span class="badge is-error">5</span> <span class="badge is-strong">2</span>
        {["is-error", "is-warn", "", "is-info"].map((tone) => (
          <span class={`dot ${tone}`} key={tone} />
        ))}
        {SERIES.map((at) => (
          <span class="swatch" style={{ background: `var(--colour-${at})` }} title={`series ${at}`} key={at} />
        ))}
      </Part>
      <Part title="Icons">
        {ICON_NAMES.map((name) => (
          <span title={name} key={name}>
            <Icon name={name} />
          </span>
        ))}
      </Part>
    </>
  );
}

function States() {
  return (
    <>
      <Card title="Table">
        <Table
          title="Services"
          rows={ROWS}
          columns={[
            { head: "service", kind: "name", cell: ({ id }) => <NameLink href="#/parts" text={id} /> },
            { head: "state", cell: ({ state }) => <Chip tone={state} text={state} /> },
            { head: "last hour", cell: () => <Sparkline values={[1, 1, 2, 1, 6, 5, 6]} label="errors" colour="is-error" /> },
            { head: "memory", kind: "number", order: ({ memory }) => memory, cell: ({ memory }) => <Share of={memory / 100} /> },
          ]}
        />
      </Card>
      <Card title="Empty, loading, error">
        <div class="empty">No records match. Change the query, or choose a longer time range.</div>
        <Skeleton lines={3} />
        <Status of={FAILED} />
        <Problem message="The backend is unreachable." shownSince={0} retry={nothing} />
      </Card>
    </>
  );
}
