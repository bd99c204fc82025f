import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { reloadIsolated } from '../../../demo/src/session/isolation.ts';

const reload = vi.fn();

/** A browser without isolation, whose service worker is ready when `ready` resolves. */
function browserWith(ready: Promise<unknown>): Map<string, string> {
  const kept = new Map<string, string>();
  vi.stubGlobal('isSecureContext', true);
  vi.stubGlobal('navigator', { serviceWorker: { register: async () => {}, ready } });
  vi.stubGlobal('sessionStorage', {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
  });
  vi.stubGlobal('location', { reload });
  return kept;
}

beforeEach(() => {
  vi.useFakeTimers();
  reload.mockClear();
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it('reloads the page when the service worker is ready, and only once', async () => {
  const kept = browserWith(Promise.resolve());
  expect(await reloadIsolated()).toBe(true);
  expect(reload).toHaveBeenCalledTimes(1);
  expect(kept.size).toBe(1);
  expect(await reloadIsolated()).toBe(false);
  expect(reload).toHaveBeenCalledTimes(1);
});

it('goes on without isolation if the service worker never starts, and tries again at the next load', async () => {
  const kept = browserWith(new Promise(() => {}));
  const done = reloadIsolated();
  await vi.runAllTimersAsync();
  expect(await done).toBe(false);
  expect(reload).not.toHaveBeenCalled();
  expect(kept.size).toBe(0);
});
