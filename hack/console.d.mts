export function buildConsole(): Promise<boolean>;
export function setup(): Promise<void>;
