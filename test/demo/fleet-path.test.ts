/** The path of a followed turn. */
import { expect, it, vi } from 'vitest';
import type { LiveNews } from '../../src/simulate/live/protocol.ts';

it('a path that was cleared or replaced does not return with an answer that was on its way', async () => {
  vi.stubGlobal('location', { hash: '#view=fleet', href: 'http://localhost/#view=fleet' });
  vi.stubGlobal('history', { replaceState: () => {} });
  for (const name of ['addEventListener', 'removeEventListener']) vi.stubGlobal(name, () => {});
  const listening = { addEventListener: () => {}, removeEventListener: () => {} };
  vi.stubGlobal('document', { visibilityState: 'visible', ...listening });
  let hear: (event: { data: LiveNews }) => void = () => {};
  vi.stubGlobal(
    'Worker',
    class {
      addEventListener(name: string, listener: typeof hear) {
        if (name === 'message') hear = listener;
      }
      postMessage() {}
      terminate() {}
    },
  );
  const { Fleet } = await import('../../demo/src/fleet/fleet.ts');
  const fleet = new Fleet();
  const leave = fleet.watch();
  const path = { decision: { turnId: 'c1#1' }, latencyMs: null, pieces: [] };
  const answer = { data: { kind: 'path', path } as unknown as LiveNews };
  fleet.follow('c1#1');
  hear(answer);
  expect(fleet.path.value).toBe(path);
  // Another turn is chosen while the first one's answer is on its way.
  fleet.follow('c2#1');
  hear(answer);
  const other = { ...path, decision: { turnId: 'c2#1' } };
  hear({ data: { kind: 'path', path: other } as unknown as LiveNews });
  hear(answer);
  expect(fleet.path.value).toBe(other);
  fleet.letGo();
  hear(answer);
  expect(fleet.path.value).toBeNull();
  fleet.follow('c1#1');
  fleet.begin();
  hear(answer);
  expect(fleet.path.value).toBeNull();
  expect(fleet.notes.said.value).toEqual([]);
  leave();
});
