/** The stylesheet's colours for canvases, and a signal that changes with the theme, the text size and the screen's resolution. */
import { signal } from '@preact/signals';

const NAMES = {
  surface: '--surface',
  sunken: '--sunken',
  ink: '--ink',
  ink2: '--ink-2',
  ink3: '--ink-3',
  line: '--line',
  lineStrong: '--line-strong',
  p: '--p',
  pInk: '--p-ink',
  d: '--d',
  dInk: '--d-ink',
  pull: '--pull',
  pullInk: '--pull-ink',
  over: '--over',
  store: '--store',
  storeInk: '--store-ink',
  bad: '--bad',
  badWash: '--bad-wash',
  onAccent: '--on-accent',
  focus: '--focus',
  talk1: '--talk-1',
  talk2: '--talk-2',
  talk3: '--talk-3',
  talk4: '--talk-4',
  sans: '--sans',
} as const;

export type Palette = Readonly<Record<keyof typeof NAMES, string>> & {
  /** The smallest font size, CSS pixels. */
  readonly least: number;
};

export function readPalette(element: Element = document.documentElement): Palette {
  const style = getComputedStyle(element);
  const colours = Object.entries(NAMES).map(([key, name]) => [key, style.getPropertyValue(name).trim()]);
  return { ...Object.fromEntries(colours), least: leastFont.peek() } as Palette;
}

/** Increases when the theme, the text size or the screen's resolution changes. */
export const themeVersion = signal(0);

/** True while the page is printed, which waits for no frame, and shows what is out of view on the screen. */
export const printing = signal(false);

/** The smallest font size, CSS pixels: 0 except in projector mode (styles/projector.css). */
export const leastFont = signal(0);

/** Switches the page's projector mode. */
export function project(on: boolean): void {
  const root = document.documentElement;
  if (on === root.hasAttribute('data-projector')) return;
  root.toggleAttribute('data-projector', on);
  leastFont.value = Number.parseFloat(getComputedStyle(root).getPropertyValue('--least')) || 0;
  themeVersion.value = themeVersion.peek() + 1;
}

/** True while the user prefers reduced motion. */
export const reducedMotion = signal(false);

/** Follows the system's colour scheme and motion settings, the screen's resolution, and the root's data-theme. Call once, in a browser. */
export function watchTheme(): void {
  const changed = () => {
    themeVersion.value++;
  };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed);
  new MutationObserver(changed).observe(document.documentElement, { attributeFilter: ['data-theme'] });
  // A window that moves to another screen keeps its size: without this, its canvases stay blurred.
  const followScreen = () => {
    const moved = () => {
      changed();
      followScreen();
    };
    matchMedia(`(resolution: ${devicePixelRatio}dppx)`).addEventListener('change', moved, { once: true });
  };
  followScreen();
  const motion = matchMedia('(prefers-reduced-motion: reduce)');
  reducedMotion.value = motion.matches;
  motion.addEventListener('change', () => {
    reducedMotion.value = motion.matches;
  });
}
