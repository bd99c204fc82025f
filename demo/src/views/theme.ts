/** The theme: light, dark, or the system's. Kept in local storage, if that is allowed. */
import { type ReadonlySignal, signal } from '@preact/signals';

/** index.html reads it. */
const KEY = 'kvferry theme';

export const THEMES = { auto: 'Auto', light: 'Light', dark: 'Dark' } as const;
export type Theme = keyof typeof THEMES;

const chosen = signal<Theme>('auto');
export const theme: ReadonlySignal<Theme> = chosen;

export function chooseTheme(wanted: Theme): void {
  show(wanted);
  try {
    if (wanted === 'auto') localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, wanted);
  } catch {
    // Storage is denied: the choice lasts until the page is closed.
  }
}

/** Reads the theme that index.html set on the root element. Call once. */
export function takeKeptTheme(): void {
  chosen.value = (document.documentElement.dataset.theme ?? 'auto') as Theme;
}

function show(wanted: Theme): void {
  chosen.value = wanted;
  const { dataset } = document.documentElement;
  if (wanted === 'auto') delete dataset.theme;
  else dataset.theme = wanted;
}
