import { describe, expect, it } from 'vitest';
import type { Stall, StallRun, StallSide } from '../../../demo/src/session/types.ts';
import {
  figuresOf,
  longestOf,
  pausesOf,
  sameCount,
  stallDomain,
  stallVerdict,
} from '../../../demo/src/views/stall/stall.ts';

/** A run with a token every 20 ms and one pause after the paste. */
const run = (pauseMs: number, pastedFirstMs = pauseMs): StallRun => ({
  tokensMs: [-40, -20, 0, pauseMs, pauseMs + 20, pauseMs + 40],
  pastedFirstMs,
});
const side = (...runs: StallRun[]): StallSide => ({ phase: 'done', runs, pieces: ['1', ' 2', ' 3'] });
const stall = (alone: StallSide, split: StallSide): Stall => ({
  startedMs: 0,
  question: 'Count.',
  pastedTokens: 400,
  alone,
  split,
  error: null,
});

describe('the pauses of a run', () => {
  it('are those between the paste and the end of its answer', () => {
    expect(pausesOf(run(100, 110))).toEqual([
      { startMs: 0, endMs: 100 },
      { startMs: 100, endMs: 120 },
    ]);
    expect(longestOf(run(100))).toEqual({ startMs: 0, endMs: 100 });
  });

  it('do not include pauses before the paste or after its answer', () => {
    const late: StallRun = { tokensMs: [-900, -100, 10, 20, 900], pastedFirstMs: 15 };
    expect(longestOf(late)).toEqual({ startMs: -100, endMs: 10 });
  });
});

describe('the figures of a side', () => {
  it('are medians of its runs, and the median run is shown', () => {
    const figures = figuresOf(side(run(90), run(500), run(100)))!;
    expect(figures).toMatchObject({ longestMs: 100, longestRunsMs: [90, 500, 100], pastedFirstMs: 100 });
    expect(figures.shown).toEqual(run(100));
  });

  it('are null if nothing could be measured', () => {
    expect(figuresOf(side())).toBeNull();
    expect(figuresOf(side({ tokensMs: [-20, -10], pastedFirstMs: 50 }))).toBeNull();
  });
});

describe('the verdict on a stall', () => {
  const slow = side(run(900), run(1000), run(1100));
  const quick = side(run(40), run(50), run(60));

  it('states the longest pause of each side, and the time to the paste’s first token', () => {
    const verdict = stallVerdict(stall(slow, quick))!;
    expect(verdict).toMatchObject({ winner: 'split' });
    expect(verdict.headline).toBe('One engine: 1,000 ms without a token. P and D: 50 ms');
    expect(verdict.sentence).toContain('20× shorter');
    expect(verdict.sentence).toContain('after 1,000 ms on one engine and after 50 ms on P and D');
  });

  it('says if splitting made no difference or made it worse', () => {
    expect(stallVerdict(stall(quick, slow))).toMatchObject({ winner: 'alone' });
    expect(stallVerdict(stall(quick, slow))!.headline).toContain('made it worse here');
    const overlapping = stall(side(run(50), run(90), run(200)), side(run(40), run(60), run(80)));
    expect(stallVerdict(overlapping)).toMatchObject({ winner: 'neither' });
    expect(stallVerdict(overlapping)!.headline).toBe('No clear difference here: pauses of 90 ms and 60 ms');
  });

  it('claims no order of the paste’s first tokens where their runs overlap', () => {
    const pasted = (pauseMs: number, ...firstMs: number[]) => side(...firstMs.map((ms) => run(pauseMs, ms)));
    const sentence = (alone: StallSide, split: StallSide) => stallVerdict(stall(alone, split))!.sentence;
    expect(sentence(pasted(900, 900, 1000, 1300), pasted(40, 1100, 1200, 1400))).toContain(
      'after 1,000 ms on one engine and after 1,200 ms on P and D: no clear difference.',
    );
    expect(sentence(pasted(900, 900, 1000, 1050), pasted(40, 1100, 1200, 1400))).toContain(
      'after 1,200 ms on P and D.',
    );
  });

  it('is null until both sides have finished their runs', () => {
    expect(stallVerdict(stall(slow, { ...quick, phase: 'running' }))).toBeNull();
  });

  it('compares the counts of both sides', () => {
    expect(sameCount(stall(slow, quick))).toBe(true);
    expect(sameCount(stall(slow, { ...quick, pieces: ['1', ' 3'] }))).toBe(false);
  });

  it('has one time axis for both sides', () => {
    expect(stallDomain(stall(slow, quick))).toEqual({ startMs: -40, endMs: 1040 });
    expect(stallDomain(stall(side(), side()))).toBeNull();
  });
});
