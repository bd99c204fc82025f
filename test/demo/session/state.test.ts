import { describe, expect, it } from 'vitest';
import { parseRecording } from '../../../demo/src/session/recordings.ts';
import { clearEngines } from '../../../demo/src/session/state.ts';
import type { SessionEvent } from '../../../demo/src/session/types.ts';
import { RECORDING_VERSION } from '../../../src/recording/events.ts';
import { block, turn1, turn2 } from '../views/fixture.ts';
import { feed, fixtureState } from '../views/fixture-state.ts';

const began = (engineId: string, role: 'prefill' | 'decode'): SessionEvent => ({
  kind: 'engine',
  atMs: 0,
  engineId,
  role,
  alive: true,
  message: null,
});
const ended = (engineId: string, role: 'prefill' | 'decode'): SessionEvent => ({
  kind: 'engine',
  atMs: 0,
  engineId,
  role,
  alive: false,
  message: 'killed',
});
const used = (engineId: string, id: number): SessionEvent => ({
  kind: 'blocks',
  atMs: 0,
  engineId,
  numBlocks: 8,
  changed: [block(id, {})],
});

describe('engines', () => {
  it('each have their own blocks; the first of a role that lives is drawn', () => {
    const state = fixtureState([
      began('p0', 'prefill'),
      began('p1', 'prefill'),
      began('d0', 'decode'),
      used('p1', 3),
    ]);
    const inUse = (engineId: string) =>
      state.engines.value
        .get(engineId)!
        .blocks.value.flatMap(({ id, state: is }) => (is === 'computed' ? [id] : []));
    expect([inUse('p0'), inUse('p1'), inUse('d0')]).toEqual([[], [3], []]);
    const { prefill, decode } = state.drawn;
    expect([prefill.value?.engineId, decode.value?.engineId]).toEqual(['p0', 'd0']);
    feed(state, [ended('p0', 'prefill')]);
    expect(prefill.value?.engineId).toBe('p1');
    feed(state, [ended('p1', 'prefill'), began('p2', 'prefill')]);
    expect(prefill.value?.engineId).toBe('p2');
    feed(state, [ended('p2', 'prefill')]);
    expect(prefill.value).toMatchObject({ engineId: 'p2', message: { value: 'killed' } });
  });

  it('that the last copy went between are drawn, unless somebody looks at another', () => {
    const copied = (from: string, to: string, side: 'prefill' | 'decode'): SessionEvent => {
      const shared = { requestId: `${from}-${to}`, from, to, side, bytes: 0 };
      return { kind: 'transfer_started', atMs: 1, ...shared, pairs: [] };
    };
    const state = fixtureState([
      ...[began('p0', 'prefill'), began('p1', 'prefill')],
      ...[began('d0', 'decode'), began('d1', 'decode')],
      copied('p1', 'd1', 'decode'),
    ]);
    const drawn = () => [state.drawn.prefill.value?.engineId, state.drawn.decode.value?.engineId];
    expect(drawn()).toEqual(['p1', 'd1']);
    feed(state, [copied('d1', 'p0', 'prefill')]);
    expect(drawn()).toEqual(['p0', 'd1']);
    state.looked.value = { prefill: 'p1', decode: 'd0' };
    expect(drawn()).toEqual(['p1', 'd0']);
    feed(state, [ended('d0', 'decode')]);
    expect(drawn()).toEqual(['p1', 'd1']);
  });

  it('begin with nothing in their blocks, also under the id of one before', () => {
    const state = fixtureState([began('p0', 'prefill'), used('p0', 3), began('p0', 'prefill')]);
    expect(state.engines.value.get('p0')!.blocks.value).toEqual([]);
  });

  it('are none before there are any, and again when others take their place', () => {
    const state = fixtureState([]);
    expect(state.drawn.prefill.value).toBeNull();
    feed(state, [...turn1, ...turn2]);
    expect(state.slabs.value.get('decode-0')).toMatchObject({ slots: 4 });
    clearEngines(state);
    expect([state.drawn.decode.value, state.slabs.value.size]).toEqual([null, 0]);
    expect(state.turns.value).toHaveLength(2);
  });
});

describe('a recording', () => {
  it('of another version is refused in one sentence that names both', () => {
    const old = JSON.stringify({
      kvferryRecording: 1,
      madeWith: 'x',
      title: 'x',
      events: [{ kind: 'engine', role: 'prefill' }],
    });
    expect(() => parseRecording(old, 'old.json')).toThrow(
      `old.json is no recording of this version of kvferry: ✖ found version 1, wanted ${RECORDING_VERSION}`,
    );
  });
});
