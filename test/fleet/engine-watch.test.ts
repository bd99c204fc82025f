/** Which notices of a cluster reach which listeners. */
import { expect, it } from 'vitest';
import { EngineWatch } from '../../src/fleet/engine-watch.ts';

it('store notices sent before anyone listens are replayed to every listener; later ones are not', () => {
  const watch = new EngineWatch();
  const store = (message: string) => ({ kind: 'store', message }) as const;
  const heard: string[][] = [[], []];
  const listen = (who: number) =>
    watch.listen((notice) => heard[who]!.push(notice.kind === 'store' ? notice.message : notice.kind));
  watch.notify({ kind: 'alive', engineId: 'prefill-0', role: 'prefill', replaces: null });
  watch.notify(store('early'));
  listen(0);
  watch.notify(store('late'));
  listen(1);
  expect(heard).toEqual([['early', 'late'], ['early']]);
});
