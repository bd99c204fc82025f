import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { checkedSettings } from '../../../demo/src/session/hash.ts';
import { savedText } from '../../../demo/src/session/playback/log.ts';
import { Playback } from '../../../demo/src/session/playback/playback.ts';
import { STAGE_SHOWN_MS, Timeline } from '../../../demo/src/session/playback/played-events.ts';
import { parseRecording } from '../../../demo/src/session/playback/recordings.ts';
import { READING_MS } from '../../../demo/src/session/reading.ts';
import { defaultSettings } from '../../../demo/src/session/settings.ts';
import { createState } from '../../../demo/src/session/state.ts';
import type { SessionEvent } from '../../../demo/src/session/types.ts';
import { turn1, turn2 } from '../views/fixture.ts';

const events = [...turn1, ...turn2];
const end = Math.max(...events.map(({ atMs }) => atMs));
const start = turn1.find(({ kind }) => kind === 'turn_started')!.atMs;
const firstToken = turn1.find(({ kind }) => kind === 'token')!.atMs;

/** A recording as it is after it was saved and loaded. */
const reread = (told: readonly SessionEvent[], title: string) =>
  parseRecording(savedText(told, title), title);

let frames: (() => void)[] = [];
let wallMs = 0;
/** Runs the next frame `ms` later. */
const frame = (ms: number) => {
  wallMs += ms;
  for (const run of frames.splice(0)) run();
};

beforeEach(() => {
  frames = [];
  wallMs = 0;
  vi.stubGlobal('requestAnimationFrame', (run: () => void) => frames.push(run));
  vi.stubGlobal('cancelAnimationFrame', () => {
    frames = [];
  });
  vi.spyOn(performance, 'now').mockImplementation(() => wallMs);
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

const playing = (speed: 'slow' | 'live' | '4/1' | '1/10') => {
  const state = createState(() => 0, checkedSettings(defaultSettings, { speed }));
  const live = { ms: 0 };
  const playback = new Playback(state, () => live.ms);
  const tell = (event: SessionEvent) => {
    live.ms = Math.max(live.ms, event.atMs);
    playback.hear(event);
  };
  return { state, live, playback, tell };
};

type Span = Extract<SessionEvent, { kind: 'spans' }>['spans'][number];
const spanFrom = (startMs: number): Span => ({
  ...{ name: 'forward', engineId: 'prefill-0', lane: 'host', clock: 'host' },
  ...{ startMs, endMs: startMs + 1, requestId: null, args: {}, turns: [] },
});

describe('playback at speed live', () => {
  it('shows events as they happen, on the clock of the session', () => {
    const { state, playback, tell, live } = playing('live');
    for (const event of events) tell(event);
    expect(state.turns.value).toHaveLength(2);
    expect(playback.nowMs()).toBe(live.ms);
    expect(state.time.value).toMatchObject({ follows: true });
  });
});

describe('playback at speed slow', () => {
  it('shows nothing early, the first token after about four seconds, and everything in the end', async () => {
    const { state, playback, tell } = playing('slow');
    for (const event of turn1) tell(event);
    expect(state.turns.value.at(-1)).toMatchObject({ tokens: 0, endMs: null });
    let caughtUp = false;
    void playback.caughtUp().then(() => {
      caughtUp = true;
    });
    while (playback.nowMs() < firstToken && wallMs < 60_000) {
      expect(state.turns.value.at(-1)!.tokens).toBe(0);
      for (const span of state.spans.value) expect(span.startMs).toBeLessThanOrEqual(playback.nowMs());
      frame(16);
    }
    expect(state.turns.value.at(-1)!.tokens).toBeGreaterThan(0);
    const slowed = Math.max(firstToken - start, Math.min(4000, (firstToken - start) * 100));
    expect(wallMs).toBeGreaterThan(0.9 * slowed);
    expect(wallMs).toBeLessThan(1.5 * slowed);
    for (let i = 0; i < 20_000 && frames.length > 0; i++) frame(16);
    await expect.poll(() => caughtUp).toBe(true);
    expect(state.turns.value.at(-1)!.endMs).not.toBeNull();
    expect(state.time.value).toMatchObject({ follows: true });
  });

  it('shows each stage with a headline long enough to be read', () => {
    const { state, playback, tell } = playing('slow');
    for (const event of [...turn1, ...turn2]) tell(event);
    playback.seek(0);
    playback.play();
    const first = turn2.find(({ kind }) => kind === 'token')!.atMs;
    const shownMs = new Map<number, number>();
    while (playback.nowMs() < first) {
      frame(16);
      const copies = state.transfers.value.filter(({ startMs }) => startMs >= turn2[0]!.atMs);
      const stage =
        copies.length + copies.filter(({ side, endMs }) => side === 'prefill' && endMs !== null).length;
      shownMs.set(stage, (shownMs.get(stage) ?? 0) + 16);
    }
    // Before the pull, the pull, P's computation, the handover.
    expect([...shownMs.keys()]).toEqual([0, 1, 2, 3]);
    for (const ms of shownMs.values()) expect(ms).toBeGreaterThan(0.8 * STAGE_SHOWN_MS);
  });

  it('waits at a turn’s beginning until its first token is known', () => {
    const { state, playback, tell } = playing('slow');
    for (const event of turn1.filter(({ atMs }) => atMs < firstToken)) tell(event);
    frame(200);
    frame(200);
    expect(playback.nowMs()).toBe(start);
    expect(state.transfers.value).toEqual([]);
  });

  it('can be skipped to now', () => {
    const { state, playback, tell } = playing('slow');
    for (const event of turn1) tell(event);
    playback.toNow();
    expect(state.turns.value.at(-1)!.endMs).not.toBeNull();
    expect(state.time.value.follows).toBe(true);
  });
});

describe('playback that is behind or paused', () => {
  it.each(['live', 'slow'] as const)('at speed %s goes on from the present during a turn', (speed) => {
    const { state, playback, tell } = playing(speed);
    const at = turn1.findIndex(({ kind }) => kind === 'turn_ended');
    for (const event of turn1.slice(0, at)) tell(event);
    playback.pause();
    playback.toNow();
    expect(state.turns.value.at(-1)).toMatchObject({ endMs: null });
    expect(state.time.value.playing).toBe(true);
    for (const event of turn1.slice(at)) tell(event);
    for (let i = 0; i < 1000 && frames.length > 0; i++) frame(16);
    expect(state.turns.value.at(-1)!.endMs).not.toBeNull();
    expect(state.time.value.follows).toBe(true);
  });

  it('shows a note to the visitor at once, outside the turn', () => {
    const { state, playback, tell } = playing('slow');
    for (const event of turn1) tell(event);
    expect(state.time.value.follows).toBe(false);
    playback.say({ kind: 'note', atMs: end, level: 'warning', message: 'that is no model' });
    expect(state.notes.value.map(({ message }) => message)).toEqual(['that is no model']);
    playback.toNow();
    expect(state.notes.value).toHaveLength(1);
    expect(playback.told().events.filter(({ kind }) => kind === 'note')).toEqual([]);
    playback.say({ kind: 'note', atMs: end, level: 'info', message: "P's cache is empty" });
    expect(playback.told().events.filter(({ kind }) => kind === 'note')).toHaveLength(1);
  });

  it('can seek back and forth in the last turn, and shows the same each time', () => {
    const { state, playback, tell } = playing('live');
    for (const event of events) tell(event);
    const after = JSON.stringify([state.turns.value, state.transfers.value, state.spans.value]);
    playback.seek(0);
    expect(state.turns.value).toHaveLength(2);
    expect(state.turns.value[1]).toMatchObject({ tokens: 0 });
    expect(state.time.value).toMatchObject({ follows: false, playing: false, atMs: 0 });
    playback.seek(1e9);
    expect(state.turns.value[1]!.endMs).not.toBeNull();
    playback.toNow();
    expect(JSON.stringify([state.turns.value, state.transfers.value, state.spans.value])).toBe(after);
  });

  it('steps from stage to stage', () => {
    const { state, playback, tell } = playing('live');
    for (const event of events) tell(event);
    playback.seek(0);
    const seen: string[] = [];
    for (let i = 0; i < 20 && !state.time.value.follows; i++) {
      playback.step();
      const { turns, transfers } = state;
      const turn = turns.value[1]!;
      const own = transfers.value.filter(({ startMs }) => startMs >= turn.startMs);
      seen.push(
        `${own.map(({ side, endMs }) => `${side} ${endMs === null ? 'runs' : 'done'}`).join(', ')}; ${turn.tokens} tokens`,
      );
    }
    expect(seen[0]).toMatch(/^prefill runs; 0 tokens$/);
    expect(seen[1]).toMatch(/^prefill done; 0 tokens$/);
    expect(seen.some((stage) => stage.includes('decode done; 0'))).toBe(true);
    expect(state.time.value.follows).toBe(true);
  });

  it('shows each span that is reported late once, and no other event again', () => {
    const { state, playback, tell } = playing('live');
    for (const event of turn1) tell(event);
    playback.pause();
    const before = { answer: state.turns.value[0]!.answer, spans: state.spans.value.length };
    // The outer span is reported after the inner one, and is placed before it.
    const [inner, outer] = [spanFrom(firstToken + 0.01), spanFrom(firstToken - 0.01)];
    tell({ kind: 'spans', atMs: end, spans: [inner, outer] });
    expect(state.spans.value.slice(before.spans)).toEqual([inner, outer]);
    expect(state.turns.value[0]!.answer).toBe(before.answer);
  });

  it('shows a span of an earlier turn once after going back, although it was reported in a later turn', () => {
    const { state, playback, tell } = playing('live');
    for (const event of turn1) tell(event);
    const [begins, ...rest] = turn2;
    tell(begins!);
    const late = spanFrom(firstToken);
    tell({ kind: 'spans', atMs: begins!.atMs, spans: [late] });
    for (const event of rest) tell(event);
    const after = JSON.stringify([state.turns.value, state.transfers.value, state.spans.value.length]);
    playback.seek(0);
    playback.toNow();
    expect(JSON.stringify([state.turns.value, state.transfers.value, state.spans.value.length])).toBe(after);
  });

  it('does not lose events that happen meanwhile', () => {
    const { state, playback, tell } = playing('live');
    for (const event of turn1) tell(event);
    playback.seek(0);
    for (const event of turn2) tell(event);
    expect(state.turns.value).toHaveLength(1);
    playback.toNow();
    expect(state.turns.value).toHaveLength(2);
  });
});

describe('a recording', () => {
  it('of a session shows the same when loaded, with the settings of its time', () => {
    const { state, playback, tell } = playing('live');
    tell({ kind: 'settings', atMs: 0, settings: { mode: 'unidirectional' } });
    for (const event of events) tell(event);
    const shown = ({ turns, transfers, spans }: typeof state) =>
      JSON.stringify([turns.value, transfers.value, spans.value.length]);
    const recording = reread(playback.told().events, 'two turns');
    expect(recording.events.length).toBeLessThanOrEqual(events.length + 1);
    const other = playing('live');
    other.playback.load(recording);
    other.playback.seek(1e9);
    expect(shown(other.state)).toBe(shown(state));
    expect(other.state.settings.value.mode).toBe('unidirectional');
  });

  it('is played at its own speed, or four times as fast', () => {
    const { playback, tell } = playing('live');
    for (const event of events) tell(event);
    const recording = reread(playback.told().events, 'two turns');
    const took = (speed: 'live' | '4/1') => {
      const { playback: other, state } = playing(speed);
      other.load(recording);
      other.play();
      const begunMs = wallMs;
      while (state.time.value.playing) frame(1);
      expect(state.turns.value).toHaveLength(2);
      return wallMs - begunMs;
    };
    expect(took('live') / took('4/1')).toBeCloseTo(4, 1);
  });

  it('pauses between turns and between conversations', () => {
    const { playback, tell } = playing('live');
    const second = turn2.filter(({ atMs }) => atMs >= turn2[0]!.atMs);
    const over = { kind: 'conversation_ended' as const, atMs: second[0]!.atMs - 1, conversation: 'talk' };
    for (const event of [...turn1, over, ...second]) tell(event);
    const { playback: other, state } = playing('slow');
    other.load(reread(playback.told().events, 'two conversations'));
    other.play();
    const stoodFor = new Map<string, number>();
    while (state.time.value.playing) {
      const before = state.time.value.atMs;
      frame(50);
      const key = `${state.turns.value.length} turns, ${state.turns.value.at(-1)?.endMs == null ? 'none' : 'ended'}`;
      if (state.time.value.atMs === before) stoodFor.set(key, (stoodFor.get(key) ?? 0) + 50);
    }
    expect(stoodFor.get('1 turns, ended')).toBeGreaterThanOrEqual(READING_MS - 50);
    expect(stoodFor.get('0 turns, none')).toBeGreaterThanOrEqual(READING_MS - 50);
  });

  it('shows each turn from its beginning, however long frames are', () => {
    const { playback, tell } = playing('live');
    for (const event of events) tell(event);
    const { playback: other, state } = playing('slow');
    other.load(reread(playback.told().events, 'two turns'));
    other.play();
    const seen = new Set<number>();
    while (state.time.value.playing) {
      frame(200);
      seen.add(other.nowMs());
    }
    expect([...seen]).toEqual(expect.arrayContaining([start, turn2[0]!.atMs]));
  });

  it('plays measurements outside the conversation quickly', () => {
    const { playback, tell } = playing('live');
    const raced = { ...turn1.find(({ kind }) => kind === 'turn_started')!, turnId: 'r1', atMs: 10_000 };
    const over = { ...turn1.find(({ kind }) => kind === 'turn_ended')!, turnId: 'r1', atMs: 14_000 };
    const race = { ...raced, conversation: 'race-pull' } as SessionEvent;
    const tokens = [11_000, 12_000, 13_000].map(
      (atMs, i): SessionEvent => ({ kind: 'token', atMs, turnId: 'r1', text: '', tokens: i + 1 }),
    );
    for (const event of [...turn1, race, ...tokens, over as SessionEvent]) tell(event);
    const { playback: other, state } = playing('slow');
    other.load(reread(playback.told().events, 'a turn and a race'));
    other.play();
    let tookMs = 0;
    while (state.time.value.playing) {
      const before = other.nowMs();
      frame(10);
      if (before >= 10_000) tookMs += 10;
    }
    expect(tookMs).toBeGreaterThan(950);
    expect(tookMs).toBeLessThan(1050);
  });

  it('is shown with the viewer’s speed and text size, not the recorded ones', () => {
    const { playback, tell } = playing('live');
    for (const event of events) tell(event);
    const told = reread(playback.told().events, 'two turns');
    const settings = { speed: 'live', projector: true, mode: 'unidirectional' };
    const first = { kind: 'settings' as const, atMs: told.events[0]!.atMs, settings };
    const { playback: other, state } = playing('4/1');
    other.load({ ...told, events: [first, ...told.events] });
    expect(state.settings.value).toMatchObject({ speed: '4/1', projector: false, mode: 'unidirectional' });
  });

  it('shows the settings of a run with large pools, and none that the page does not know', () => {
    const settings = {
      ...{ model: 'nano', mode: 'unidirectional', pBlocks: 1025, dBlocks: 17_409 },
      ...{ threshold: null, link: 'no link', later: 1 },
    };
    const blocks = { kind: 'blocks' as const, atMs: 1, engineId: 'decode-0', numBlocks: 17_409, changed: [] };
    const { playback, state } = playing('live');
    playback.load(reread([{ kind: 'settings', atMs: 0, settings }, blocks, ...turn1], 'a run'));
    const known = { model: 'nano', mode: 'unidirectional', pBlocks: 1025, dBlocks: 17_409 };
    expect(state.settings.value).toEqual({ ...defaultSettings, speed: 'live', ...known });
  });

  it('has at each position the settings of that time, after any seek', () => {
    const settings = (atMs: number, mode: string): SessionEvent => {
      return { kind: 'settings', atMs, settings: { mode } };
    };
    const second = turn2[0]!.atMs;
    const recorded = [
      settings(0, 'bidirectional'),
      ...turn1,
      settings(second - 1, 'unidirectional'),
      ...turn2,
    ];
    const { playback, state } = playing('live');
    playback.load(reread(recorded, 'two modes'));
    playback.seek(1e9);
    expect(state.settings.value.mode).toBe('unidirectional');
    playback.seek(firstToken);
    expect(state.turns.value).toHaveLength(1);
    expect(state.settings.value.mode).toBe('bidirectional');
  });

  it('of the last turn of a live session leaves the active settings unchanged on a seek', () => {
    const { state, playback, tell } = playing('live');
    for (const event of turn1) tell(event);
    tell({ kind: 'settings', atMs: end + 1, settings: { threshold: 7 } });
    playback.seek(0);
    expect(state.settings.value.threshold).toBe(7);
    tell({ kind: 'settings', atMs: end + 2, settings: { threshold: 8 } });
    expect(state.settings.value.threshold).toBe(8);
  });

  it('starts empty with new engines', () => {
    const { playback, tell, state } = playing('live');
    for (const event of turn1) tell(event);
    playback.forget();
    expect(playback.told().events).toEqual([]);
    expect(state.time.value.follows).toBe(true);
  });
});

describe('playback beyond the event limit', () => {
  it('shows turns live to their end, without seeking back', () => {
    const { state, playback, tell } = playing('slow');
    const [begin, ...rest] = turn2.filter(({ kind }) => /^t(urn|oken)/.test(kind));
    tell(begin!);
    for (let i = 0; i < 200_000; i++) tell({ kind: 'note', atMs: begin!.atMs, level: 'info', message: '' });
    for (const event of rest) tell(event);
    expect(state.turns.value.at(-1)!.endMs).not.toBeNull();
    for (const event of [begin!, ...rest]) {
      tell('turnId' in event ? { ...event, turnId: 'later' } : event);
      expect(state.turns.value.at(-1)!.turnId).toBe('later');
    }
    expect(state.turns.value.at(-1)!.endMs).not.toBeNull();
    expect(state.time.value).toMatchObject({ follows: true, lengthMs: 0 });
    expect(playback.told()).toMatchObject({ events: { length: 200_000 }, cut: true });
  });

  it('still plays a loaded recording to its end', () => {
    const { state, playback } = playing('slow');
    const many = Array.from({ length: 200_000 }, () => ({ ...turn1[0]!, atMs: turn1[0]!.atMs }));
    playback.load(reread([...many, ...turn1], 'a long one'));
    playback.seek(end);
    expect(state.turns.value.at(-1)?.endMs).toBeGreaterThan(0);
  });
});

describe('the event timeline', () => {
  it('places spans at their start time, although they are reported later', () => {
    const timeline = new Timeline();
    for (const event of events) timeline.add(event);
    let last = 0;
    for (let i = 0; i < timeline.length; i++) {
      const at = timeline.shownMs(timeline.at(i)!);
      expect(at).toBeGreaterThanOrEqual(last);
      last = at;
    }
    expect(timeline.endMs).toBeLessThanOrEqual(end);
  });
});
