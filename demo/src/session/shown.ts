/**
 * Which view the page shows: its own engines or a fleet. It is in the address, so that the browser's Back works. Also
 * whether the page's own engines are needed: a simulated fleet does without them, which saves time and memory.
 */
import { effect, type ReadonlySignal, signal } from '@preact/signals';
import { addressWith } from './address.ts';

const inAddress = (): boolean => new URLSearchParams(location.hash.slice(1)).get('view') === 'fleet';

const shown = signal(false);
export const fleetShown: ReadonlySignal<boolean> = shown;

const needed = signal(false);
/** True from when the engines were first shown or needed for a measurement. */
export const enginesNeeded: ReadonlySignal<boolean> = needed;

export function needEngines(): void {
  needed.value = true;
}

/** Call once, in a browser. */
export function watchShown(): void {
  const follow = () => {
    shown.value = inAddress();
  };
  follow();
  addEventListener('hashchange', follow);
  effect(() => {
    if (!shown.value) needEngines();
  });
}

/** Changes the view. Leaving the fleet view removes its settings from the address. */
export function showFleet(show: boolean): void {
  const parts = [...new URLSearchParams(location.hash.slice(1))];
  const others = parts.filter(([key]) => key !== 'view' && !key.startsWith('fleet.'));
  const hash = new URLSearchParams(show ? [...others, ['view', 'fleet']] : others).toString();
  history.pushState(null, '', addressWith(hash && `#${hash}`));
  shown.value = show;
}

/** Resolves as soon as `isSo` is true; `isSo` must read signals. */
export function once(isSo: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    effect(function (this: { dispose(): void }) {
      if (!isSo()) return;
      this.dispose();
      resolve();
    });
  });
}
