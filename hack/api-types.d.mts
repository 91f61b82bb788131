export function buildApiTypes(): void;
export function setup(): void;
