// The components that all screens are built from: what the folder gives to the others.
export * from "./common.tsx";
export * from "./controls.tsx";
export * from "./download.tsx";
export * from "./editable-list.tsx";
export * from "./field-table.tsx";
export * from "./icons.tsx";
export * from "./layout.tsx";
export * from "./list.tsx";
export * from "./popover.tsx";
export * from "./removal.tsx";
export * from "./saving-form.tsx";
export * from "./side.tsx";
export * from "./snippets.ts";
export * from "./sparkline.tsx";
export * from "./table.tsx";
export * from "./text.ts";
export * from "./time-picker.tsx";
