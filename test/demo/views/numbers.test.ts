import { describe, expect, it } from 'vitest';
import { measured } from '../../../demo/src/views/measured.ts';
import { asMarkdown, numberRows } from '../../../demo/src/views/numbers.ts';
import { crossoverEvent, raceEvent, turn1, turn2 } from './fixture.ts';
import { fixtureState } from './fixture-state.ts';

const settings = { mode: 'bidirectional', store: null, path: 'both' } as const;
const nothing = {
  settings,
  machine: null,
  turns: [],
  transfers: [],
  race: null,
  crossover: null,
  recorded: false,
};

describe('the class’s numbers', () => {
  it('say how to get what moves between P and D, and that with these settings nothing does', () => {
    const hows = (other: object): (string | undefined)[] =>
      ['handover P → D', 'pull back D → P'].map(
        (wanted) =>
          numberRows({ ...nothing, settings: { ...settings, ...other } }).find(({ what }) => what === wanted)
            ?.how,
      );
    expect(hows({})).toEqual(['not yet: ask once', 'not yet: ask three times, both ways']);
    const alone = 'not yet: ask with P and D, not one engine';
    expect(hows({ mode: 'monolithic' })[0]).toBe(alone);
    const stored = 'not yet: all KV goes through the store; take another path';
    expect(hows({ path: 'store', store: 1 << 24 })).toEqual([stored, stored]);
    expect(hows({ path: 'store' })[0]).toBe('not yet: ask once');
  });

  it('are empty until they were measured', () => {
    expect(numberRows(nothing).every(({ value }) => value === null)).toBe(true);
    expect(asMarkdown(numberRows(nothing), false)).toContain('not measured');
  });

  it('of a recording are marked as not in the recording, not as unmeasured', () => {
    const facts = { ...nothing, recorded: true };
    for (const { how } of numberRows(facts)) expect(how).toBe('not in the recording so far');
    expect(asMarkdown(numberRows(facts), true)).toContain('| | a recording |');
  });

  it('are computed from turns, transfers, race and crossover, and mark a modelled link', () => {
    const state = fixtureState([...turn1, ...turn2, raceEvent, crossoverEvent]);
    const rows = new Map(
      numberRows({
        settings,
        machine: state.machine.value,
        turns: state.turns.value,
        transfers: state.transfers.value,
        race: state.race.value,
        crossover: state.crossover.value,
        recorded: false,
      }).map(({ what, value }) => [what, value]),
    );
    expect(rows.get('first token, pulled back')).toBe('38 ms');
    expect(rows.get('computed again / pulled back')).toBe('3.58×');
    expect(rows.get('pull back D → P')).toBe('8.19 MB/s (7 blocks in 14 ms)');
    expect(rows.get('pulling wins from')).toBe('29 tokens');
    const { pull, recompute } = state.race.value!;
    const slow = { ...pull, stagesMs: { ...pull.stagesMs, pull_link: 900 } };
    const modelled = numberRows({
      ...nothing,
      race: { ...state.race.value!, pull: slow, recompute },
    });
    expect(modelled.map(({ value }) => value)).toContain('38 ms, modelled link');
    expect(modelled.map(({ value }) => value)).toContain('3.58×, modelled link');
    expect(modelled.map(({ value }) => value)).toContain('136 ms');
    const overLink = { ...state.crossover.value!, link: '40e3,5ms' };
    const far = numberRows({
      ...nothing,
      crossover: overLink,
    });
    expect(far.map(({ value }) => value)).toContain('29 tokens, modelled link');
    const of1 = state.transfers.value.map((one) => ({ ...one, pairs: one.pairs.slice(0, 1) }));
    expect(asMarkdown(numberRows({ ...nothing, transfers: of1 }), false)).toContain('(1 block in 14 ms)');
    expect(measured(state.crossover.value)).toHaveLength(5);
  });
});
