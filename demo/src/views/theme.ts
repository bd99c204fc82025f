/** Light, dark, or as the system has it: kept in this browser for the next time, where it keeps anything. */
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
    // Storage is denied: it holds as long as the page does.
  }
}

/** Call once: the root has it from the first moment on. */
export function takeKeptTheme(): void {
  chosen.value = (document.documentElement.dataset.theme ?? 'auto') as Theme;
}

function show(wanted: Theme): void {
  chosen.value = wanted;
  const { dataset } = document.documentElement;
  if (wanted === 'auto') delete dataset.theme;
  else dataset.theme = wanted;
}
