import { describe, expect, it, vi } from 'vitest';
import { showFleet } from '../../../demo/src/session/shown.ts';
import type { Race, SessionEvent, Status } from '../../../demo/src/session/types.ts';
import { isPlain, stageOf } from '../../../demo/src/views/opening.ts';
import { shownStages, stageTone } from '../../../demo/src/views/race/stage-names.ts';
import { sameAnswer, verdictOf } from '../../../demo/src/views/race/verdict.ts';
import { blockInWords } from '../../../demo/src/views/stage/describe-block.ts';
import { transferInWords } from '../../../demo/src/views/stage/describe-transfer.ts';
import { drawnIds } from '../../../demo/src/views/stage/direction.ts';
import { isFromStore } from '../../../demo/src/views/stage/sources.ts';
import { tell } from '../../../demo/src/views/story.ts';
import { storedTokens } from '../../../src/measure/spans/stored-tokens.ts';
import { block, raceEvent, turn1, turn2 } from './fixture.ts';
import { feed, fixtureState } from './fixture-state.ts';

const told = (events: readonly SessionEvent[], status?: Status) => {
  const state = fixtureState(events);
  return tell({
    status: status ?? state.status.value,
    mode: state.settings.value.mode,
    turns: state.turns.value,
    transfers: state.transfers.value,
    storeTransfers: state.storeTransfers.value,
    race: state.race.value,
    stall: state.stall.value,
    beganMs: state.beganMs.value,
  });
};
const headlineOf = (events: readonly SessionEvent[]) => told(events).headline;
const race = (raceEvent as Extract<SessionEvent, { kind: 'race' }>).race!;
const withTimes = (pullMs: number, recomputeMs: number): Race => ({
  ...race,
  pull: { ...race.pull, ttftMs: pullMs },
  recompute: { ...race.recompute, ttftMs: recomputeMs },
});

it('races the next turn on its own in a projector too, and not for an address with other settings', () => {
  expect(['', '#projector=true', '#speed=live&projector=true'].map(isPlain)).toEqual([true, true, true]);
  expect(['#lesson=1', '#projector=true&turns=3', '#view=fleet'].map(isPlain)).toEqual([false, false, false]);
});

describe('the headline', () => {
  it('starts with what the two engines do', () => {
    expect(told(turn1.slice(0, 3)).headline).toBe('P reads. D writes. KV is copied between them, both ways.');
  });

  it('starts with what the one engine does in mode monolithic', () => {
    const settings = { kind: 'settings' as const, atMs: 0, settings: { mode: 'monolithic' } };
    expect(told([...turn1.slice(0, 3), settings]).headline).toBe(
      'One engine reads and writes. Nothing is copied.',
    );
  });

  it('says in a recording that another conversation begins, and in which mode', () => {
    const state = fixtureState([
      ...turn1,
      { kind: 'conversation_ended', atMs: 9000, conversation: 'talk' },
      { kind: 'settings', atMs: 9000, settings: { mode: 'unidirectional' } },
    ]);
    const status = { phase: 'recorded', message: '', progress: null } as const;
    const { headline } = tell({
      status,
      mode: state.settings.value.mode,
      turns: state.turns.value,
      transfers: state.transfers.value,
      storeTransfers: [],
      race: null,
      stall: null,
      beganMs: state.beganMs.value,
    });
    expect(headline).toBe('Another conversation begins: one way');
  });

  it('says which engine has the KV of an answer', () => {
    expect(told(turn1).headline).toContain('Their KV is in D, and P does not have it');
  });

  it('says what was pulled back and what P did not have to compute', () => {
    const { headline, detail, tone } = told([...turn1, ...turn2]);
    expect(tone).toBe('pull');
    expect(headline).toBe('7 blocks came back from D to P: 112 tokens that P did not compute again');
    expect(detail).toContain('P computed only 14 of 126 prompt tokens');
    expect(detail).toContain('Copied in 14 ms');
  });

  it('says what was pulled back in a turn from before a reload, whose transfers are unknown', () => {
    const ended = turn2.find(({ kind }) => kind === 'turn_ended') as Extract<
      SessionEvent,
      { kind: 'turn_ended' }
    >;
    const d_to_p = { bytes: 114_688, blocks: 7, ms: 14, throttled: false };
    const result = { ...ended.result, transfer: { ...ended.result.transfer, d_to_p } };
    const turn = { turnId: 't2', turn: 2, mode: 'bidirectional' as const, question: '?', result };
    const resumed = { kind: 'conversation_resumed' as const, atMs: 5, conversation: 'talk', turns: [turn] };
    const { headline, detail, tone } = told([...turn1.slice(0, 3), resumed]);
    expect(tone).toBe('pull');
    expect(headline).toBe('7 blocks came back from D to P: 112 tokens that P did not compute again');
    expect(detail).toContain('Copied in 14 ms, 8.19 MB/s. P computed only 14 of 126 prompt tokens');
  });

  it('names no number of engines and no device while engines start', () => {
    const message = 'Starting 4 engines with recall, each on its own WebGPU device.';
    const { headline } = told([], { phase: 'starting', message, progress: null });
    expect(headline).toBe('The engines are starting');
  });

  it('compares a turn only with turns of its own conversation', () => {
    const state = fixtureState([...turn1, ...turn2]);
    const facts = {
      status: state.status.value,
      mode: state.settings.value.mode,
      transfers: state.transfers.value,
      storeTransfers: [],
      race: null,
      stall: null,
      beganMs: state.beganMs.value,
    };
    const [first, pulled] = state.turns.value;
    const report = { ...first!.result!, pulled_tokens: 0, computed_tokens: 999 };
    const other = { ...first!, turn: 2, result: report };
    const tellWith = (conversation: string) =>
      tell({ ...facts, turns: [{ ...other, conversation }, pulled!] }).detail;
    expect(tellWith(pulled!.conversation)).toContain('Turn 2 computed 999 tokens');
    expect(tellWith('another')).not.toContain('computed 999');
  });

  it('says that D has no KV yet only if no turn of the conversation was answered', () => {
    const ended = turn2.findLast((event) => event.kind === 'turn_ended')!;
    const alone = { ...ended, result: { ...ended.result, pulled_tokens: 0, no_pull_reason: null } };
    const second = turn2.map((event) => (event === ended ? alone : event));
    const refused = (event: SessionEvent): SessionEvent =>
      event.kind === 'turn_ended'
        ? { kind: 'turn_failed', atMs: event.atMs, turnId: event.turnId, message: 'too long' }
        : event;
    expect(told([...turn1, ...second]).detail).toContain('D no longer held KV of this conversation.');
    expect(told([...turn1.map(refused), ...second]).detail).toContain('D had no KV of this conversation yet');
  });

  it('ignores a race run before the conversation began', () => {
    const over = { kind: 'conversation_ended' as const, atMs: 9000, conversation: 'talk' };
    expect(told([...turn1, ...turn2, raceEvent, over]).headline).toBe(
      'P reads. D writes. KV is copied between them, both ways.',
    );
  });

  it('states the result of a race, gain or loss', () => {
    expect(told([...turn1, ...turn2, raceEvent]).headline).toBe('Pulling back saved 98 ms');
    const lost = { ...raceEvent, race: withTimes(200, 50) } as SessionEvent;
    expect(told([...turn1, ...turn2, lost])).toMatchObject({
      headline: 'Pulling back cost 150 ms here',
      detail: expect.stringContaining('On this machine, at this length, copying is slower'),
    });
  });

  it('leaves an older stall for a new race as soon as it prepares, unless that failed', () => {
    const side = { phase: 'waiting' as const, runs: [], pieces: [] };
    const stall = { startedMs: 4000, question: 'Count.', pastedTokens: 400, alone: side, split: side };
    const measured = { kind: 'stall', atMs: 4000, stall: { ...stall, error: null } } as const;
    const idle = { ...race.pull, phase: 'waiting' as const, startedMs: null, ttftMs: null };
    const withRace = (raced: Partial<Race>) =>
      headlineOf([...turn1, measured, { ...raceEvent, race: { ...race, ...raced } } as SessionEvent]);
    const [ofStall, ofRace] = [/^One user gets an answer/, /^What did that save/];
    expect(headlineOf([...turn1, measured])).toMatch(ofStall);
    expect(withRace({ pull: idle, recompute: idle })).toMatch(ofRace);
    expect(withRace({ pull: idle })).toMatch(ofRace);
    expect(withRace({ pull: idle, recompute: idle, error: 'It was stopped.' })).toMatch(ofStall);
  });

  it('does not say that copying is no faster if the runs of a race overlap', () => {
    const { pull, recompute, ...raced } = withTimes(216, 847);
    const overlapping = {
      ...raced,
      pull: { ...pull, runsMs: [195, 216, 594] },
      recompute: { ...recompute, runsMs: [571, 847, 1479] },
    };
    expect(told([...turn1, ...turn2, { ...raceEvent, race: overlapping } as SessionEvent])).toMatchObject({
      headline: 'No clear difference between pulling and computing',
      detail: expect.stringContaining('at this length, these runs show neither to be faster'),
    });
  });

  it('names a modelled link, not the machine, as the reason for a result', () => {
    for (const [pullMs, ms] of [
      [200, 50],
      [50, 200],
    ] as const) {
      const { pull, ...raced } = withTimes(pullMs, ms);
      const race = { ...raced, pull: { ...pull, stagesMs: { pull: 10, pull_link: 190 } } };
      const { detail } = told([...turn1, ...turn2, { ...raceEvent, race } as SessionEvent]);
      expect(detail).toMatch(/modelled link/);
      expect(detail).not.toContain('On this machine');
    }
  });

  it('invites a question only if one can be asked', () => {
    const events = [...turn1, raceEvent];
    expect(told(events).detail).toContain('Your turn: ask');
    expect(told(events, { phase: 'recorded', message: '', progress: null }).detail).not.toContain('ask');
  });

  it('says when the answers of a race differ', () => {
    const other = {
      ...raceEvent,
      race: { ...race, pull: { ...race.pull, answer: 'A dog.' } },
    } as SessionEvent;
    expect(told([...turn1, other]).detail).toContain('not the same answer');
  });

  it('moves on to the next user turn after a race, but ignores the race’s own turns', () => {
    const started = {
      kind: 'turn_started',
      turn: 3,
      mode: 'bidirectional',
      question: 'Who?',
      edited: false,
    } as const;
    const own: SessionEvent = { ...started, atMs: 7000, turnId: 't3', conversation: 'talk' };
    const its: SessionEvent = { ...started, atMs: 7000, turnId: 't3', conversation: 'race-pull' };
    expect(told([...turn1, ...turn2, raceEvent, own]).headline).toBe('P prepares turn 3');
    expect(told([...turn1, ...turn2, raceEvent, its]).headline).toBe('Pulling back saved 98 ms');
  });

  it('says why there are no engines, and what to do', () => {
    const failed: SessionEvent = {
      kind: 'status',
      atMs: 0,
      phase: 'failed',
      message: 'The server is away.',
      progress: null,
    };
    expect(told([failed])).toMatchObject({
      tone: 'bad',
      detail:
        'Press Reset to try again, choose another model in the settings, or reload the page. The reason: The server is away.',
    });
  });

  it('says why a turn failed', () => {
    const failed: SessionEvent = { kind: 'turn_failed', atMs: 3005, turnId: 't2', message: 'D ended.' };
    expect(told([...turn1, turn2[0]!, failed])).toMatchObject({ tone: 'bad', detail: 'D ended.' });
  });
});

describe('the verdict on a race', () => {
  it('names the winner and the margin', () => {
    expect(verdictOf(withTimes(38, 136))).toMatchObject({ winner: 'pull', marginMs: 98 });
    expect(verdictOf(withTimes(136, 38))).toMatchObject({ winner: 'recompute', marginMs: 98 });
    expect(verdictOf(withTimes(136, 38))!.sentence).toContain('Pulling lost by 98 ms');
  });

  it('is “no clear difference” for times too close to tell apart, and null until both sides end', () => {
    expect(verdictOf(withTimes(100, 102))).toMatchObject({
      winner: 'neither',
      sentence: 'No clear difference: 100 ms against 102 ms.',
    });
    expect(verdictOf({ ...race, pull: { ...race.pull, ttftMs: null } })).toBeNull();
  });

  it('names no winner if the runs of both sides overlap', () => {
    const runs = (pullMs: number[], recomputeMs: number[]): Race => ({
      ...race,
      pull: { ...race.pull, ttftMs: pullMs[1]!, runsMs: pullMs },
      recompute: { ...race.recompute, ttftMs: recomputeMs[1]!, runsMs: recomputeMs },
    });
    const overlapping = runs([30, 50, 90], [80, 100, 120]);
    expect(verdictOf(overlapping)).toMatchObject({
      winner: 'neither',
      sentence: 'No clear difference: 50 ms against 100 ms. The runs overlap.',
    });
    expect(verdictOf(runs([30, 50, 70], [80, 100, 120]))).toMatchObject({ winner: 'pull', marginMs: 50 });
    expect(verdictOf(runs([80, 100, 120], [30, 50, 70]))).toMatchObject({ winner: 'recompute' });
  });

  it('compares the answers', () => {
    expect(sameAnswer(race)).toBe(true);
    expect(sameAnswer({ ...race, pull: { ...race.pull, answer: 'A dog came.' } })).toBe(false);
    expect(sameAnswer({ ...race, pull: { ...race.pull, phase: 'running' } })).toBeNull();
  });
});

describe('the stages of a turn', () => {
  it('have the colour of the engine or copy that they belong to', () => {
    expect(stageTone('pull_readback')).toBe('pull');
    expect(stageTone('hand_over_readback')).toBe('over');
    expect(stageTone('prefill')).toBe('p');
    expect(stageTone('first_decode_step')).toBe('d');
    expect(stageTone('queueing')).toBe('other');
    expect(shownStages({ a: 0, b: 2 })).toEqual([{ name: 'b', ms: 2, modelled: false }]);
  });
});

describe('a block in words', () => {
  it('has its state, tokens, text and hold', () => {
    const held = block(4, {
      state: 'held',
      heldFor: 'prefill',
      heldUntilMs: 480_000,
      text: 'a bear',
      author: 'assistant',
    });
    expect(blockInWords(held, 'decode', 0, false)).toBe(
      'Block 4 of D: held after its turn; was computed by D; turn 1, said by the assistant; 16 tokens; held for P, 8 min longer; “a bear”.',
    );
  });
});

describe('a copy in words', () => {
  const [copy] = fixtureState([...turn1, ...turn2]).transfers.value.slice(-1);

  it('has its blocks, time and rate, and says if the link is modelled, as the drawing does', () => {
    const pulled = { ...copy!, side: 'prefill' as const, startMs: 0, endMs: 1000, bytes: 40_000 };
    const words = transferInWords(pulled);
    expect(words).toMatch(/^P copied 1 block from D in 1,000 ms, 40 kB\/s\.$/);
    expect(transferInWords({ ...pulled, throttled: true })).toBe(
      words.replace(/\.$/, ' over a modelled link.'),
    );
  });
});

describe('the opening', () => {
  it('does not race once the fleet is shown', () => {
    vi.stubGlobal('location', { hash: '', href: 'http://localhost/' });
    vi.stubGlobal('history', { pushState: () => {} });
    try {
      const state = fixtureState([...turn1, ...turn2]);
      state.settings.value = { ...state.settings.value, turns: 2 };
      showFleet(true);
      expect(stageOf(state)).toBe('over');
    } finally {
      showFleet(false);
      vi.unstubAllGlobals();
    }
  });

  it('races after the first turns, but not in a lesson, after other turns or after a failure', () => {
    const state = fixtureState([...turn1, ...turn2]);
    state.settings.value = { ...state.settings.value, turns: 2 };
    expect(stageOf(state)).toBe('played');
    state.playing.value = true;
    expect(stageOf(state)).toBe('playing');
    state.playing.value = false;
    state.settings.value = { ...state.settings.value, lesson: 3 };
    expect(stageOf(state)).toBe('over');
    state.settings.value = { ...state.settings.value, lesson: null, turns: 1 };
    expect(stageOf(state)).toBe('over');
    const failed = fixtureState([
      ...turn1,
      turn2[0]!,
      { kind: 'turn_failed', atMs: 3005, turnId: 't2', message: 'no' },
    ]);
    expect(stageOf(failed)).toBe('over');
  });
});

describe('with a store', () => {
  const transfer = (from: string, to: string): SessionEvent => ({
    ...{ kind: 'transfer_started', atMs: 2000, requestId: 'r', from, to, side: 'prefill' },
    pairs: [[1, 2]],
    bytes: 64,
  });

  it('a block is described as copied from its latest source', () => {
    const { decode, prefill } = drawnIds(fixtureState(turn1));
    const state = fixtureState([...turn1, transfer('store', prefill!)]);
    const pulled = { ...block(2, { state: 'pulled', origin: 'pulled' }) };
    const words = () => blockInWords(pulled, 'prefill', 0, isFromStore(state, 'prefill', 2));
    expect(words()).toContain('copied from the store');
    feed(state, [{ ...transfer(decode!, prefill!), atMs: 3000 }]);
    expect(words()).toContain('copied from D');
  });

  it('a turn reports tokens from the store and from D separately', () => {
    const [moved, none] = [7, 0].map((blocks) => ({ blocks, bytes: 1024 * blocks, ms: 3, throttled: false }));
    const ended = turn2.findLast((event) => event.kind === 'turn_ended')!;
    const both = { ...ended.result.transfer, store_to_p: { ...moved!, bytes: 3 * 7 * 1024 }, d_to_p: moved! };
    const result = { ...ended.result, pulled_tokens: 112, transfer: both };
    expect(storedTokens(result)).toBe(84);
    const events = turn2.map((event) => (event === ended ? { ...ended, result } : event));
    const { headline, tone } = told([...turn1, ...events]);
    expect(tone).toBe('store');
    expect(headline).toBe('84 tokens came from the store, 28 from D: P did not compute them again');
    expect(storedTokens({ ...result, transfer: { ...both, store_to_p: none! } })).toBe(0);
  });

  it('a load is a separate stage', () => {
    const stages = shownStages({ load_p_wait: 1, load_d_upload: 2, pull_wait: 4, prefill: 8 });
    expect(stages.map(({ name, ms }) => [name, ms])).toEqual([
      ['load', 3],
      ['pull', 4],
      ['prefill', 8],
    ]);
    expect(stageTone('load')).toBe('store');
  });

  it('a modelled link is a separate part, next to the copy that it delays', () => {
    const stages = shownStages({
      pull_wait: 4,
      pull_link: 100,
      load_d_link: 2,
      hand_over_link: 50,
      prefill: 8,
    });
    expect(stages.map(({ name, ms, modelled }) => [name, ms, modelled])).toEqual([
      ['load_link', 2, true],
      ['pull', 4, false],
      ['pull_link', 100, true],
      ['prefill', 8, false],
      ['hand_over_link', 50, true],
    ]);
    expect(stages.map(({ name }) => stageTone(name))).toEqual(['store', 'pull', 'pull', 'p', 'over']);
  });
});
