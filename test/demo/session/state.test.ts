import { describe, expect, it } from 'vitest';
import { parseRecording } from '../../../demo/src/session/playback/recordings.ts';
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

describe('engines in the page state', () => {
  it('have their own blocks, and the first live engine of each role is drawn', () => {
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

  it('of the last copy are drawn, unless the visitor chose others', () => {
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

  it('start with empty blocks, even under a reused id', () => {
    const state = fixtureState([began('p0', 'prefill'), used('p0', 3), began('p0', 'prefill')]);
    expect(state.engines.value.get('p0')!.blocks.value).toEqual([]);
  });

  it('are absent at first, and again after clearEngines', () => {
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
  it('is refused with what was wanted if the file is JSON of another kind', () => {
    for (const text of ['{"format":1}', '[]', 'null'])
      expect(() => parseRecording(text, 'x.json')).toThrow(
        'x.json is not a recording: wanted one saved by this page or by kvferry run --record.',
      );
  });

  it('of another version is refused with both versions named', () => {
    const old = JSON.stringify({
      kvferryRecording: 1,
      madeWith: 'x',
      title: 'x',
      events: [{ kind: 'engine', role: 'prefill' }],
    });
    expect(() => parseRecording(old, 'old.json')).toThrow(
      `old.json is not a recording of this version of kvferry: found version 1, wanted ${RECORDING_VERSION}: record it again.`,
    );
  });

  it('that is damaged is refused with the place named', () => {
    const events = [{ kind: 'blocks', atMs: 'soon', engineId: 'prefill-0', numBlocks: 4, changed: [] }];
    const damaged = { kvferryRecording: RECORDING_VERSION, madeWith: 'x', title: 'x', events };
    expect(() => parseRecording(JSON.stringify(damaged), 'x.json')).toThrow(
      'x.json is not a recording of this version of kvferry: wanted a number at events.0.atMs.',
    );
  });

  it('with more blocks in an engine or a store than the page can show is refused', () => {
    const engine = { kind: 'blocks', atMs: 0, engineId: 'prefill-0', changed: [] };
    const store = { kind: 'store_blocks', atMs: 0, tier: 'folder', changed: [] };
    const read = (event: object) => () =>
      parseRecording(
        JSON.stringify({
          ...{ kvferryRecording: RECORDING_VERSION, madeWith: 'x', title: 'x', events: [event] },
        }),
        'large.json',
      );
    expect(read({ ...engine, numBlocks: 32_768 })().events).toHaveLength(1);
    expect(read({ ...engine, numBlocks: 1e9 })).toThrow(
      'large.json has 1000000000 blocks in prefill-0, and the page shows at most 32768',
    );
    expect(read({ ...store, numBlocks: 262_144 })().events).toHaveLength(1);
    expect(read({ ...store, numBlocks: 1e9 })).toThrow(
      'blocks in the store, and the page shows at most 262144',
    );
  });
});

describe('a store in the page state', () => {
  const way = { requestId: 'r', side: 'prefill' } as const;
  const moved = (kind: 'load' | 'save' | 'pull', atMs: number): SessionEvent => {
    const ends = { load: ['store', 'p'], save: ['p', 'store'], pull: ['d', 'p'] } as const;
    const [from, to] = ends[kind];
    return { kind: 'transfer_started', atMs, ...way, from, to, pairs: [[1, 2]], bytes: 64 };
  };
  const ended = (from: string, to: string, atMs: number): SessionEvent => ({
    ...{ kind: 'transfer_ended', atMs, ...way, from, to, outcome: 'done', message: '' },
    ...{ bytes: 64, blocks: 1, ms: 1, stagesMs: {}, throttled: false },
  });

  it('has its own list of transfers, apart from those between engines', () => {
    const state = fixtureState([moved('load', 1), moved('pull', 2), moved('save', 3), moved('save', 4)]);
    expect(state.transfers.value.map(({ from }) => from)).toEqual(['d']);
    expect(state.storeTransfers.value.map(({ to }) => to)).toEqual(['p', 'store', 'store']);
    feed(state, [ended('p', 'store', 5)]);
    expect(state.storeTransfers.value.map(({ endMs }) => endMs)).toEqual([null, 5, null]);
    expect(state.transfers.value[0]!.endMs).toBeNull();
  });

  it('is removed with the engines', () => {
    const figures = {
      ...{ slots: 4, blockBytes: 64, blocks: 1, lookups: 0, hits: 0, stored: 1, evicted: 0 },
      ...{ twoHopBytes: 0, queues: null, folder: null },
    };
    const there = { ...block(2, {}), state: 'cached' } as const;
    const state = fixtureState([
      { kind: 'store', atMs: 0, figures },
      { kind: 'store_blocks', atMs: 0, tier: 'memory', numBlocks: 4, changed: [there] },
    ]);
    expect(state.store.value!.memory.map(({ state: what }) => what)).toEqual([
      ...['null', 'free', 'cached', 'free', 'free'],
    ]);
    clearEngines(state);
    expect(state.store.value).toBeNull();
  });
});

it('a repeated note moves to the end instead of standing there twice', () => {
  const note = (atMs: number, message: string): SessionEvent => ({
    kind: 'note',
    atMs,
    level: 'info',
    message,
  });
  const { notes } = fixtureState([note(1, 'emptied'), note(2, 'other'), note(3, 'emptied')]);
  expect(notes.value.map(({ atMs, message }) => [atMs, message])).toEqual([
    [2, 'other'],
    [3, 'emptied'],
  ]);
  expect(new Set(notes.value.map(({ id }) => id)).size).toBe(2);
});
