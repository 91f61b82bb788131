// Requests, the address, the session and times: what the folder gives to the screens.
export * from "./api.ts";
export * from "./keys.ts";
export * from "./loaded.ts";
export * from "./paged-rows.ts";
export * from "./route.ts";
export * from "./sending.ts";
export * from "./session.ts";
export * from "./stored.ts";
export * from "./time.ts";
export * from "./typed-range.ts";
export * from "./unsaved.ts";
