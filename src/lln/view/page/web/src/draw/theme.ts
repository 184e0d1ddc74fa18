// Colours come from the style sheet, so that light, dark and print are decided in one place.

const NAMES = [
  "ink", "soft-ink", "paper", "rule", "grid", "truth", "forecast", "highlight", "chosen", "lens", "handle",
] as const;
export type Colours = Record<(typeof NAMES)[number], string>;

let cached: Colours | null = null;

export function colours(): Colours {
  if (!cached) {
    const style = getComputedStyle(document.documentElement);
    cached = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()])) as Colours;
  }
  return cached;
}

export function forgetColours(): void {
  cached = null;
}

export const FONT = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
