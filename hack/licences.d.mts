export function readLicences(root: string, inputs: readonly string[]): { id: string; section: string }[];
