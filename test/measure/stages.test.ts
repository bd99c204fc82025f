import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { criticalPath, type PathPiece } from '../../src/measure/spans/critical-path.ts';
import { onHost, type Span, type SpanName, type TurnSide } from '../../src/measure/spans/spans.ts';
import { groupStages, stageNames, turnStages } from '../../src/measure/spans/stages.ts';

const path = (pieces: readonly PathPiece<string>[], from: number, to: number) =>
  criticalPath(pieces, from, to).map(({ key, startMs, endMs }) => [key, startMs, endMs]);
const work = (key: string, startMs: number, endMs: number): PathPiece<string> => ({
  key,
  startMs,
  endMs,
  waitRank: null,
});
const wait = (key: string, startMs: number, endMs: number, waitRank = 0): PathPiece<string> => ({
  key,
  startMs,
  endMs,
  waitRank,
});

describe('the critical path', () => {
  it('gives each moment to the piece that ended last before the next one began', () => {
    // Two chunks through a slow first stage: the second stage of chunk 0 hides behind the first of chunk 1.
    const pieces = [work('read', 0, 10), work('write', 10, 12), work('read', 10, 20), work('write', 20, 22)];
    expect(path(pieces, 0, 22)).toEqual([
      ['read', 0, 20],
      ['write', 20, 22],
    ]);
    // And through a slow second stage.
    const slow = [work('read', 0, 2), work('read', 2, 4), work('write', 2, 12), work('write', 12, 22)];
    expect(path(slow, 0, 22)).toEqual([
      ['read', 0, 2],
      ['write', 2, 22],
    ]);
  });

  it('fills gaps between work with the most specific wait, and leaves the rest unknown', () => {
    const pieces = [wait('queue', 0, 8, 3), wait('message', 4, 6, 1), work('run', 8, 10)];
    expect(path(pieces, 0, 12)).toEqual([
      ['queue', 0, 4],
      ['message', 4, 6],
      ['queue', 6, 8],
      ['run', 8, 10],
      [null, 10, 12],
    ]);
  });

  it('is cut to the window asked for', () => {
    expect(path([work('run', -5, 50)], 0, 10)).toEqual([['run', 0, 10]]);
    expect(path([], 3, 7)).toEqual([[null, 3, 7]]);
    expect(path([work('run', 0, 1)], 5, 5)).toEqual([]);
  });

  it('tiles any window, each part with a piece that ran then, or unknown if none did', () => {
    const moment = fc.integer({ min: -50, max: 1100 }).map((n) => n / 8);
    const piece = fc
      .record({
        key: fc.constantFrom('a', 'b', 'c', 'd'),
        startMs: moment,
        length: fc.integer({ min: 0, max: 400 }),
        waitRank: fc.constantFrom(null, null, 0, 1, 2),
      })
      .map(({ key, startMs, length, waitRank }) => ({
        key,
        startMs,
        endMs: startMs + length / 8,
        waitRank,
      }));
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 40, size: 'max' }),
        fc.integer({ min: 0, max: 1000 }),
        (pieces, length) => {
          const to = length / 8;
          const segments = criticalPath(pieces, 0, to);
          let at = 0;
          for (const { key, startMs, endMs } of segments) {
            expect(startMs).toBe(at);
            expect(endMs).toBeGreaterThan(startMs);
            at = endMs;
            const right = (t: number): boolean => {
              const running = pieces.filter((p) => p.startMs <= t && t + 0.125 <= p.endMs);
              return key === null ? running.length === 0 : running.some((p) => p.key === key);
            };
            for (let t = startMs; t < endMs; t += 0.125) if (!right(t)) expect.fail(`${key} at ${t}`);
          }
          expect(at).toBe(to);
        },
      ),
    );
  });
});

/** A span of these turns and sides, such as 't prefill' or 'u decode'. */
const span = (name: SpanName, whose: string | readonly string[], startMs: number, endMs: number): Span => ({
  name,
  ...onHost('x'),
  startMs,
  endMs,
  clock: 'host',
  requestId: null,
  turns: [whose].flat().map((each) => {
    const [turnId, side] = each.split(' ');
    return { turnId: turnId!, side: side as TurnSide };
  }),
  args: {},
});

describe('the stages of a turn', () => {
  const spans = [
    span('accept', 't prefill', 0, 1),
    span('queue', 't prefill', 2, 4),
    span('lookup', 't prefill', 4, 5),
    span('transfer', 't prefill', 5, 20),
    span('wait', 't prefill', 5, 8),
    span('readback', 't prefill', 8, 12),
    span('slab out', 't prefill', 14, 15),
    span('scatter', 't prefill', 15, 19),
    span('notify', 't prefill', 20, 23),
    span('queue', 't prefill', 20, 21),
    span('forward', ['other decode', 't prefill'], 21, 30),
    span('sampling', 't prefill', 30, 31),
    span('hand over', 't decode', 32, 33),
    span('readback', 't decode', 34, 36),
    span('forward', ['t decode', 'other decode'], 36, 40),
    span('forward', 'other prefill', 0, 40),
    span('collect', [], 0, 40),
    { ...span('kernels', 't prefill', 0, 40), clock: 'gpu' as const },
    span('forward', 'u prefill', 0, 40),
  ];

  it('are computed from the spans of its own requests, with P and D kept apart', () => {
    const { stagesMs, overlappedMs } = turnStages(spans, {
      turnId: 't',
      acceptedMs: 0,
      firstTokenMs: 40,
    });
    expect(stagesMs).toEqual({
      router: 2,
      other: 3,
      queue_p: 3,
      lookup_p: 1,
      pull_wait: 3,
      pull_readback: 4,
      pull_messages: 3,
      pull_slab_out: 1,
      pull_scatter: 4,
      prefill: 9,
      sampling_p: 1,
      hand_over_readback: 2,
      first_decode_step: 4,
    });
    expect(overlappedMs).toEqual({ pull_notify: 3 });
  });

  it('separate loads from the store from transfers between engines', () => {
    const way = { from: 'store', to: 'prefill-0' };
    const saving = { from: 'decode-0', to: 'store' };
    const { stagesMs } = turnStages(
      [
        span('accept', 't prefill', 0, 1),
        { ...span('store lookup', 't prefill', 1, 6), way },
        { ...span('transfer', 't prefill', 6, 14), way },
        { ...span('readback', 't prefill', 8, 12), way },
        span('forward', 't prefill', 14, 20),
        span('transfer', 't decode', 20, 24),
        { ...span('store lookup', 't decode', 24, 26), way: { ...way, to: 'decode-0' } },
        { ...span('scatter', 't decode', 26, 28), way: { ...way, to: 'decode-0' } },
        { ...span('save', 't decode', 22, 30), way: saving },
        span('forward', 't decode', 28, 30),
      ],
      { turnId: 't', acceptedMs: 0, firstTokenMs: 30 },
    );
    expect(stagesMs).toEqual({
      ...{ router: 1, load_p_lookup: 5, load_p_readback: 4, load_p_messages: 4, prefill: 6 },
      ...{ hand_over_messages: 4, load_d_lookup: 2, load_d_scatter: 2, first_decode_step: 2, other: 0 },
    });
    expect(groupStages(stagesMs)).toMatchObject({ load: 17, pull: 0, handover: 4 });
  });

  it('count a streamed handover from the end of prefill on; what ran before that is overlapped', () => {
    const streamed = [
      span('accept', 't prefill', 0, 1),
      span('accept', 't decode', 0, 1),
      span('lookup', 't decode', 2, 2.5),
      span('transfer', 't decode', 3, 40),
      span('forward', 't prefill', 2, 12),
      // Chunk 0 ends between two steps of P, chunk 1 after the last.
      span('readback', 't decode', 12, 14),
      span('scatter', 't decode', 14, 15),
      span('forward', 't prefill', 16, 29),
      span('readback', 't decode', 26, 34),
      span('sampling', 't prefill', 29, 30),
      span('scatter', 't decode', 34, 40),
      span('forward', 't decode', 40, 45),
    ];
    const { stagesMs, overlappedMs } = turnStages(streamed, {
      turnId: 't',
      acceptedMs: 0,
      firstTokenMs: 45,
    });
    expect(stagesMs).toEqual({
      router: 1,
      other: 5,
      prefill: 23,
      sampling_p: 1,
      hand_over_readback: 4,
      hand_over_scatter: 6,
      first_decode_step: 5,
    });
    expect(overlappedMs).toEqual({
      router: 1,
      lookup_d: 0.5,
      hand_over_readback: 6,
      hand_over_scatter: 1,
    });
  });

  it('leave out what an engine recomputed after the first token', () => {
    const lost = [
      span('forward', 't prefill', 0, 10),
      span('readback', 't decode', 10, 14),
      span('forward', 't decode', 14, 20),
      // D ended, and another engine serves the rest of the turn.
      span('forward', 't prefill', 30, 50),
    ];
    const { stagesMs } = turnStages(lost, { turnId: 't', acceptedMs: 0, firstTokenMs: 20 });
    expect(stagesMs).toEqual({ prefill: 10, hand_over_readback: 4, first_decode_step: 6, other: 0 });
  });

  it('are those of the only engine in a monolithic turn', () => {
    const own = [
      span('queue', 't prefill', 0, 1),
      span('forward', 't prefill', 1, 9),
      span('sampling', 't prefill', 9, 10),
    ];
    const { stagesMs } = turnStages(own, { turnId: 't', acceptedMs: 0, firstTokenMs: 10 });
    expect(stagesMs).toEqual({ queue_p: 1, prefill: 8, sampling_p: 1, other: 0 });
  });

  it('add up to the TTFT and are never negative, whatever the spans', () => {
    const names = [
      'accept',
      'submit',
      'queue',
      'step',
      'lookup',
      'transfer',
      'wait',
      'readback',
      'link',
    ] as const;
    // The shared clock: large numbers, in steps of 2^-12 ms.
    const origin = 1_795_000_000_000;
    const anySpan = fc
      .tuple(
        fc.constantFrom<SpanName>(...names, 'scatter', 'forward', 'sampling', 'schedule', 'notify'),
        fc.constantFrom('t prefill', 't decode', 'u prefill'),
        fc.integer({ min: -4096, max: 40 * 4096 }),
        fc.integer({ min: 0, max: 20 * 4096 }),
      )
      .map(([name, id, start, length]) =>
        span(name, id, origin + start / 4096, origin + (start + length) / 4096),
      );
    fc.assert(
      fc.property(
        fc.array(anySpan, { maxLength: 60, size: 'max' }),
        fc.integer({ min: 0, max: 40 * 4096 }),
        (all, end) => {
          const firstTokenMs = origin + end / 4096;
          const times = turnStages(all, { turnId: 't', acceptedMs: origin, firstTokenMs });
          const sum = Object.values(times.stagesMs).reduce((a, b) => a + b, 0);
          expect(sum).toBe(firstTokenMs - origin);
          for (const ms of Object.values(times.stagesMs)) expect(ms).toBeGreaterThanOrEqual(0);
          for (const ms of Object.values(times.overlappedMs)) expect(ms).toBeGreaterThan(0);
        },
      ),
    );
  });

  it('are summed by group, with unknown stages under other', () => {
    const groups = groupStages({ pull_wait: 1, pull_scatter: 2, pull_handshake: 4, prefill: 8, news: 16 });
    expect(groups).toMatchObject({ pull: 3, handshake: 4, prefill: 8, other: 16, router: 0 });
  });

  it('are all listed in docs/stages.md', () => {
    const text = readFileSync(new URL('../../docs/stages.md', import.meta.url), 'utf8');
    for (const name of stageNames) expect(text).toContain(`\`${name}\``);
  });
});
