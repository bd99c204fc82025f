/** What the page shows: its own engines, or a fleet. The address says it, so that Back goes back. */
import { effect, type ReadonlySignal, signal } from '@preact/signals';

const inAddress = (): boolean => new URLSearchParams(location.hash.slice(1)).get('view') === 'fleet';

const shown = signal(false);
export const fleetShown: ReadonlySignal<boolean> = shown;

/** Call once, in a browser. */
export function watchShown(): void {
  const follow = () => {
    shown.value = inAddress();
  };
  follow();
  addEventListener('hashchange', follow);
}

/** What the fleet's view has in the address goes with it. */
export function showFleet(show: boolean): void {
  const parts = [...new URLSearchParams(location.hash.slice(1))];
  const others = parts.filter(([key]) => key !== 'view' && !key.startsWith('fleet.'));
  const hash = new URLSearchParams(show ? [...others, ['view', 'fleet']] : others).toString();
  history.pushState(null, '', `${location.pathname}${location.search}${hash && `#${hash}`}`);
  shown.value = show;
}

/** Resolves as soon as the engines are what is shown. */
export function enginesShown(): Promise<void> {
  return new Promise((resolve) => {
    effect(() => {
      if (!shown.value) resolve();
    });
  });
}
