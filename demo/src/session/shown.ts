/**
 * What the page shows: its own engines, or a fleet. The address says it, so that Back goes back. And whether the page's own
 * engines are to be built, which takes time and memory: a fleet is simulated without.
 */
import { effect, type ReadonlySignal, signal } from '@preact/signals';
import { addressWith } from './address.ts';

const inAddress = (): boolean => new URLSearchParams(location.hash.slice(1)).get('view') === 'fleet';

const shown = signal(false);
export const fleetShown: ReadonlySignal<boolean> = shown;

const needed = signal(false);
/** From the first moment on at which they were shown, or somebody wanted to measure on them. */
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

/** What the fleet's view has in the address goes with it. */
export function showFleet(show: boolean): void {
  const parts = [...new URLSearchParams(location.hash.slice(1))];
  const others = parts.filter(([key]) => key !== 'view' && !key.startsWith('fleet.'));
  const hash = new URLSearchParams(show ? [...others, ['view', 'fleet']] : others).toString();
  history.pushState(null, '', addressWith(hash && `#${hash}`));
  shown.value = show;
}

/** Resolves as soon as it is so; `isSo` reads signals. */
export function once(isSo: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    effect(function (this: { dispose(): void }) {
      if (!isSo()) return;
      this.dispose();
      resolve();
    });
  });
}
