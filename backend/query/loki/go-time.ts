// Times as Go prints them, by a layout that shows how the second of January 2006 is written. Invariant: of UTC only.

const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const TOKEN =
  /January|Jan|Monday|Mon|MST|2006|Z07:00:00|Z070000|Z07:00|Z0700|Z07|-07:00:00|-070000|-07:00|-0700|-07|__2|002|_2|01|02|03|04|05|06|15|PM|pm|[.,]0+(?!\d)|[.,]9+(?!\d)|1|2|3|4|5/g;

export function printedTime(layout: string, ns: bigint): string {
  const second = ns >= 0n ? ns / 1_000_000_000n : -((-ns + 999_999_999n) / 1_000_000_000n);
  const date = new Date(Number(second) * 1000);
  const fraction = String(ns - second * 1_000_000_000n).padStart(9, "0");
  const hour = date.getUTCHours();
  const parts: Readonly<Record<string, string>> = {
    January: MONTHS[date.getUTCMonth()] as string,
    Jan: (MONTHS[date.getUTCMonth()] as string).slice(0, 3),
    Monday: DAYS[date.getUTCDay()] as string,
    Mon: (DAYS[date.getUTCDay()] as string).slice(0, 3),
    MST: "UTC",
    "2006": String(date.getUTCFullYear()).padStart(4, "0"),
    "06": two(date.getUTCFullYear() % 100),
    "01": two(date.getUTCMonth() + 1),
    "1": String(date.getUTCMonth() + 1),
    "02": two(date.getUTCDate()),
    _2: String(date.getUTCDate()).padStart(2),
    "2": String(date.getUTCDate()),
    "002": String(dayOfYear(date)).padStart(3, "0"),
    __2: String(dayOfYear(date)).padStart(3),
    "15": two(hour),
    "03": two(hour % 12 || 12),
    "3": String(hour % 12 || 12),
    "04": two(date.getUTCMinutes()),
    "4": String(date.getUTCMinutes()),
    "05": two(date.getUTCSeconds()),
    "5": String(date.getUTCSeconds()),
    PM: hour < 12 ? "AM" : "PM",
    pm: hour < 12 ? "am" : "pm",
  };
  return layout.replaceAll(TOKEN, (token) => {
    if (token.startsWith("Z")) return "Z";
    if (token.startsWith("-")) return `+${token.slice(1).replaceAll(/\d/g, "0")}`;
    if (/^[.,]0/.test(token)) return token[0] + fraction.slice(0, token.length - 1);
    if (/^[.,]9/.test(token)) return `${token[0]}${fraction.slice(0, token.length - 1)}`.replace(/[.,]?0*$/, "");
    return parts[token] ?? token;
  });
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

function dayOfYear(date: Date): number {
  return Math.floor((date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86_400_000) + 1;
}
