import { describe, expect, it } from 'vitest';
import { pulledAfterEviction } from '../../../demo/src/lessons/6-eviction.ts';
import { askThreeTimes } from '../../../demo/src/lessons/ask.ts';
import { beginLesson, settingsOf } from '../../../demo/src/lessons/begin.ts';
import {
  editedAnswerHas,
  handedOver,
  hit,
  lookAt,
  pulled,
  raceWinner,
  recomputed,
} from '../../../demo/src/lessons/conditions.ts';
import { describeSettings } from '../../../demo/src/lessons/describe-settings.ts';
import { lessonNumbered, lessons } from '../../../demo/src/lessons/index.ts';
import { OBJECTS } from '../../../demo/src/lessons/types.ts';
import { actionsWhile } from '../../../demo/src/lessons/while-shown.ts';
import { checkedSettings } from '../../../demo/src/session/hash.ts';
import { defaultSettings } from '../../../demo/src/session/settings.ts';
import type { SessionActions, SessionEvent, TurnReport } from '../../../demo/src/session/types.ts';
import { raceEvent, turn1, turn2, turnReport } from '../views/fixture.ts';
import { feed, fixtureState } from '../views/fixture-state.ts';

/** A look at a conversation of finished turns with these reports. */
function conversation(reports: readonly Partial<TurnReport & { edited: boolean }>[]) {
  const events = reports.flatMap(({ edited = false, ...change }, i): SessionEvent[] => {
    const at = { atMs: 1000 * (i + 1), turnId: `t${i + 1}` };
    return [
      {
        ...at,
        kind: 'turn_started',
        conversation: 'chat-1',
        turn: i + 1,
        mode: 'bidirectional',
        question: '?',
        edited,
      },
      { ...at, kind: 'turn_ended', result: turnReport({ turn: i + 1, ...change }) },
    ];
  });
  return lookAt(fixtureState(events), 0);
}

describe('the lessons', () => {
  it('are numbered from 1 to 12, each with text, tasks, a question and its answer', () => {
    expect(lessons.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    for (const { title, text, tasks, question, answer } of lessons) {
      expect(title.length).toBeGreaterThan(8);
      expect(text.split('. ').length).toBeGreaterThanOrEqual(3);
      expect(tasks.length).toBeGreaterThanOrEqual(1);
      expect(question).toMatch(/\?$/);
      expect(answer.length).toBeGreaterThan(40);
      for (const { predict, look } of tasks) {
        expect(predict.ask).toMatch(/\?$/);
        expect(new Set(predict.choices).size).toBe(predict.choices.length);
        expect(OBJECTS[look]).toBeTruthy();
      }
    }
    expect(lessonNumbered(5)?.title).toBe('Pulling back from D');
    expect(lessonNumbered(null)).toBeNull();
  });

  it.each(lessons)('set only valid settings, and state them in words: lesson $number', (lesson) => {
    const settings = settingsOf(lesson, defaultSettings);
    expect(checkedSettings(defaultSettings, settings)).toEqual({
      ...settings,
      lesson: lesson.number,
      turns: 0,
    });
    const words = describeSettings(lesson);
    expect(words).toContain('mode');
    // The words contain no setting's key and no raw value.
    expect(words).not.toMatch(/\b[a-z]+[A-Z][a-z]|\b(true|false|null|undefined)\b|e3/);
  });

  it('describe their settings in plain words', () => {
    expect(describeSettings(lessonNumbered(7)!)).toBe(
      'the mode “Both ways”: P pulls back the KV that D generated; P pulls even if D has only a few tokens for it (threshold 0); a modelled link between P and D, with 40 kB/s and 5 ms of latency',
    );
  });

  it('keep only the model of the previous settings', () => {
    const before = { ...defaultSettings, model: 'tiny', link: '1gbe', threshold: 999, conversations: 2 };
    expect(settingsOf(lessonNumbered(3)!, before)).toMatchObject({
      model: 'tiny',
      link: null,
      threshold: defaultSettings.threshold,
      conversations: 1,
    });
  });

  it.each([1, 8])('set the model that they depend on: lesson %i', (number) => {
    expect(settingsOf(lessonNumbered(number)!, { ...defaultSettings, model: 'nano' }).model).toBe('recall');
  });

  it('drop a model that a lesson had set, but keep one that the user chose', () => {
    const windows = settingsOf(lessonNumbered(10)!, { ...defaultSettings, model: 'tiny' });
    expect(windows.model).toBe('tiny-hybrid');
    expect(settingsOf(lessonNumbered(3)!, windows).model).toBe(defaultSettings.model);
    const ended = { ...windows, lesson: null };
    expect(settingsOf(lessonNumbered(3)!, ended).model).toBe(defaultSettings.model);
  });

  it.each(lessons)('have no step that was seen before the lesson began: lesson $number', ({ tasks }) => {
    const state = fixtureState([...turn1, ...turn2, raceEvent]);
    for (const task of tasks) expect(task.happened(lookAt(state, 1e6))).toBe(false);
  });

  it('begin a new conversation', async () => {
    const called: string[] = [];
    const actions = new Proxy({} as SessionActions, {
      get: (_, name: string) => async () => {
        called.push(name);
      },
    });
    await beginLesson(lessonNumbered(2)!, fixtureState([]), actions);
    expect(called).toEqual(['begin']);
  });
});

describe('a step that asks three times', () => {
  const asking = (isAnswered: (count: number) => boolean) => {
    const state = fixtureState([]);
    let count = 0;
    const step = async () => {
      count++;
      feed(state, isAnswered(count) ? turn1 : turn1.filter(({ kind }) => kind === 'turn_started'));
    };
    state.settings.value = { ...defaultSettings, speed: 'live' };
    return { state, actions: { step } as SessionActions, asked: () => count };
  };

  it('asks three times', async () => {
    const { state, actions, asked } = asking(() => true);
    await askThreeTimes(actions, state);
    expect(asked()).toBe(3);
  });

  it('stops asking once a turn was stopped', async () => {
    const { state, actions, asked } = asking((count) => count < 2);
    await askThreeTimes(actions, state);
    expect(asked()).toBe(2);
  });

  it('stops asking once its lesson was left', async () => {
    const { state, actions, asked } = asking(() => true);
    await askThreeTimes(
      actionsWhile(() => asked() === 0, actions),
      state,
    );
    expect(asked()).toBe(1);
  });
});

describe('a step whose previous step was skipped first does what it needs', () => {
  /** The actions that a step takes on an empty conversation in its lesson's settings. */
  const actionsOf = async (number: number, step: number): Promise<string[]> => {
    const state = fixtureState([]);
    state.settings.value = { ...settingsOf(lessonNumbered(number)!, defaultSettings), speed: 'live' };
    const done: string[] = [];
    const actions = new Proxy({} as SessionActions, {
      get: (_, name: string) => async (given: unknown) => {
        done.push(given === undefined ? name : `${name} ${JSON.stringify(given)}`);
        if (name === 'step') feed(state, turn1);
      },
    });
    await lessonNumbered(number)!.tasks[step - 1]!.run(actions, state);
    return done;
  };

  it('lesson 6: P has found blocks in its cache before it is emptied', async () => {
    expect(await actionsOf(6, 2)).toEqual(['step', 'step', 'step', 'evictPrefill', 'step']);
  });

  it('lesson 11: the store has a conversation before D’s hold runs out', async () => {
    expect(await actionsOf(11, 3)).toEqual([
      'begin {"path":"both"}',
      'step',
      'step',
      'step',
      'expireHold',
      'step',
    ]);
  });

  it('lesson 12: there is a second D before one leaves', async () => {
    expect(await actionsOf(12, 2)).toEqual([
      'begin {"decode":2,"drain":"drop"}',
      'step',
      'step',
      'configure {"decode":1}',
      'step',
    ]);
  });
});

describe('a lesson step counts as seen', () => {
  it('for a handover, a pull and a hit by their own figures', () => {
    const transfer = (blocks: number) => ({
      bytes: blocks,
      blocks,
      ms: 1,
      gbps: 1,
      descriptors: 1,
      throttled: false,
    });
    const none = conversation([{}]);
    expect([handedOver(none), pulled(none), hit(none)]).toEqual([false, false, false]);
    expect(handedOver(conversation([{ transfer: { p_to_d: transfer(3), d_to_p: transfer(0) } }]))).toBe(true);
    expect(pulled(conversation([{}, { pulled_tokens: 16 }]))).toBe(true);
    expect(hit(conversation([{}, { local_hit_tokens: 16 }]))).toBe(true);
  });

  it('for recomputing if P computed at least what D had generated and pulled nothing', () => {
    expect(recomputed(conversation([{ output_tokens: 64 }, { computed_tokens: 80 }]))).toBe(true);
    expect(recomputed(conversation([{ output_tokens: 64 }, { computed_tokens: 20 }]))).toBe(false);
    expect(
      recomputed(conversation([{ output_tokens: 64 }, { computed_tokens: 80, pulled_tokens: 16 }])),
    ).toBe(false);
  });

  it('for a pull after an eviction if a turn with hits is followed by one without that pulls', () => {
    const [cold, warm, evicted] = [
      {},
      { local_hit_tokens: 32, pulled_tokens: 16 },
      { local_hit_tokens: 0, pulled_tokens: 96 },
    ];
    expect(pulledAfterEviction(conversation([cold, warm, evicted]))).toBe(true);
    expect(pulledAfterEviction(conversation([cold, warm]))).toBe(false);
    expect(pulledAfterEviction(conversation([cold, evicted]))).toBe(false);
  });

  it('for wrong KV if the answer to an edited history has the old word and KV was pulled', () => {
    const answered = (text: string, edited: boolean, pulled_tokens: number) =>
      conversation([{}, { text, edited, pulled_tokens }]);
    expect(editedAnswerHas(answered('Your boat is mira.', true, 26), 'mira', true)).toBe(true);
    expect(editedAnswerHas(answered('Your boat is mira.', false, 26), 'mira', true)).toBe(false);
    expect(editedAnswerHas(answered('Your boat is mira.', true, 0), 'mira', true)).toBe(false);
    expect(editedAnswerHas(answered('Your boat is luna.', true, 9), 'mira', true)).toBe(false);
  });

  it('for a race only if it ran since the lesson began', () => {
    const state = fixtureState([...turn1, raceEvent]);
    expect(raceWinner(lookAt(state, 0))).toBe('pull');
    expect(raceWinner(lookAt(state, 4700))).toBeNull();
  });

  it('for a race whichever way won', () => {
    const seen = lookAt(fixtureState([...turn1, raceEvent]), 0);
    for (const number of [5, 7]) {
      const race = lessonNumbered(number)!.tasks.find(({ look }) => look === 'the race')!;
      expect(race.happened(seen)).toBe(true);
      expect(race.predict.choices[race.predict.cameTrue(seen)!]).toBe('Pulling');
    }
  });
});
