import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BadLines } from '../../../src/workload/traces/bad-lines.ts';
import { describeScale, scaledLengths } from '../../../src/workload/traces/scale.ts';
import { lengthOf, TraceTokens } from '../../../src/workload/traces/tokens.ts';
import { TurnMaker } from '../../../src/workload/traces/turns.ts';
import type { TraceScale } from '../../../src/workload/traces/types.ts';
import { request, turnsOf, UNSCALED } from './sample-trace.ts';

const tokens = new TraceTokens(1000, 7);
const MOONCAKE: TraceScale = { traceBlockSize: 512, lengthDivisor: 32, speedUp: 1 };

describe('the content of prompts', () => {
  it('is the same for equal hash ids, and differs for others', () => {
    const [a, b, c] = turnsOf([
      request(0, { inputTokens: 40, outputTokens: 9, hashIds: [0, 1, 2] }),
      request(1, { inputTokens: 48, hashIds: [0, 1, 3] }),
      request(2, { inputTokens: 32, hashIds: [9, 8] }),
    ]).map(({ prompt }) => tokens.of(prompt));
    expect(b!.slice(0, 32)).toEqual(a!.slice(0, 32));
    expect(b!.slice(32, 40)).not.toEqual(a!.slice(32));
    expect(c!.slice(0, 16)).not.toEqual(a!.slice(0, 16));
  });

  it('does not depend on the block size: a block of 16 begins like one of 512', () => {
    const hashIds = [5, 6];
    const [small] = turnsOf([request(0, { inputTokens: 1024, hashIds })], MOONCAKE);
    const [large] = turnsOf([request(0, { inputTokens: 1024, hashIds })], { ...MOONCAKE, lengthDivisor: 1 });
    expect(tokens.of(small!.prompt).slice(0, 16)).toEqual(tokens.of(large!.prompt).slice(0, 16));
    expect(tokens.of(small!.prompt).slice(16)).toEqual(tokens.of(large!.prompt).slice(512, 528));
  });

  it('contains the answer of the turn before, up to the first new token', () => {
    const [first, second] = turnsOf([
      request(0, { inputTokens: 40, outputTokens: 20, hashIds: [0, 1, 2] }),
      request(1, { inputTokens: 80, hashIds: [0, 1, 3, 4, 5] }),
    ]);
    expect(second).toMatchObject({ conversationId: first!.conversationId, turn: 2 });
    const before = tokens.of([...first!.prompt, ...first!.answer]);
    expect(tokens.of(second!.prompt).slice(0, 60)).toEqual(before);
    expect(second!.prompt.every(({ length }) => length > 0)).toBe(true);
  });

  it('does not change for a hash id that an earlier request had', () => {
    const [, other, , second] = turnsOf([
      request(0, { inputTokens: 40, outputTokens: 20, hashIds: [0, 1, 2] }),
      request(1, {
        inputTokens: 60,
        hashIds: [0, 1, 3, 4],
        origin: { kind: 'session', id: 'x', delayMs: null },
      }),
      request(2, { inputTokens: 16, hashIds: [77] }),
      request(3, { inputTokens: 80, hashIds: [0, 1, 3, 4, 5] }),
    ]);
    expect(tokens.of(second!.prompt).slice(0, 60)).toEqual(tokens.of(other!.prompt));
  });

  it('without hash ids continues the session so far, if the prompt is long enough for it', () => {
    const session = (delayMs: number | null) => ({ kind: 'session', id: 's', delayMs }) as const;
    const [a, b, c] = turnsOf([
      request(0, { inputTokens: 10, outputTokens: 5, origin: session(null) }),
      request(1, { inputTokens: 20, outputTokens: 5, origin: session(300) }),
      request(2, { inputTokens: 12, outputTokens: 5, origin: session(null) }),
    ]);
    expect(tokens.of(b!.prompt).slice(0, 15)).toEqual(tokens.of([...a!.prompt, ...a!.answer]));
    expect(tokens.of(c!.prompt).slice(0, 10)).not.toEqual(tokens.of(a!.prompt));
    expect([a, b, c].map((turn) => turn!.arrival)).toEqual([
      { kind: 'at', ms: 0 },
      { kind: 'after', index: 0, thinkMs: 300 },
      { kind: 'after', index: 1, thinkMs: 1000 },
    ]);
  });
});

describe('a follow-up', () => {
  const first = request(0, { inputTokens: 40, outputTokens: 20, hashIds: [0, 1, 2] });
  const followers = (hashIds: number[], inputTokens: number) =>
    turnsOf([first, request(1, { inputTokens, hashIds })])[1]!.turn;

  it('begins with all full blocks of a turn, and is longer than its prompt and answer', () => {
    expect(followers([0, 1, 3, 4], 61)).toBe(2);
    expect(followers([0, 1, 3, 4], 60)).toBe(1);
    expect(followers([0, 9, 3, 4], 61)).toBe(1);
  });

  it('is not recognised by a single full block, which all may share', () => {
    const short = request(0, { inputTokens: 20, outputTokens: 2, hashIds: [0, 1] });
    expect(turnsOf([short, request(1, { inputTokens: 64, hashIds: [0, 2, 3, 4] })])[1]!.turn).toBe(1);
  });

  it('follows the longest match, and each turn has only one follow-up', () => {
    const longer = request(1, { inputTokens: 56, outputTokens: 20, hashIds: [0, 1, 5, 6] });
    const next = (index: number) =>
      request(index, { inputTokens: 160, hashIds: [0, 1, 5, 6, 7, 8, 9, 10, 11, 12] });
    const turns = turnsOf([first, longer, next(2), next(3), next(4)]);
    const after = turns.map(({ arrival }) => (arrival.kind === 'after' ? arrival.index : null));
    expect(after).toEqual([null, null, 1, 0, null]);
    expect(turns[2]!.conversationId).toBe(turns[1]!.conversationId);
  });

  it('follows the latest of the turns that begin alike and are short enough', () => {
    const lengths = fc.record({
      inputTokens: fc.integer({ min: 32, max: 47 }),
      outputTokens: fc.integer({ min: 1, max: 6 }),
    });
    fc.assert(
      fc.property(fc.array(lengths, { maxLength: 40, size: 'max' }), (asked) => {
        const turns = turnsOf(asked.map((one, i) => request(i, { ...one, hashIds: [0, 1, 100 + i] })));
        const left = new Set<number>();
        asked.forEach(({ inputTokens }, i) => {
          const found = [...left].findLast(
            (j) => asked[j]!.inputTokens + asked[j]!.outputTokens < inputTokens,
          );
          const { arrival } = turns[i]!;
          expect(arrival.kind === 'after' ? arrival.index : undefined).toBe(found);
          if (found !== undefined) left.delete(found);
          left.add(i);
        });
      }),
    );
  });

  it('in a chat is found by its parent; a second child starts its own conversation', () => {
    const chat = (index: number, parent: string | null) =>
      request(index, { inputTokens: 20 + 30 * index, origin: { kind: 'chat', id: `c${index}`, parent } });
    const turns = turnsOf([chat(0, null), chat(1, 'c0'), chat(2, 'c0')]);
    expect(turns.map(({ conversationId, turn }) => [conversationId, turn])).toEqual([
      ['c0', 1],
      ['c0', 2],
      ['c2', 2],
    ]);
  });

  it('in a chat is refused if its id occurred before, or skipped and counted', () => {
    const chat = (index: number, id: string, parent: string | null) =>
      request(index, { arrivalMs: 0, origin: { kind: 'chat', id, parent } });
    const [first, again, child] = [chat(0, '7', null), chat(1, '7', null), chat(2, '8', '7')];
    expect(() => turnsOf([first, again])).toThrow(
      /made, line 2: the chat id 7 occurs on line 1 too: wanted an id of its own .*--skip-bad/,
    );
    const bad = new BadLines('made', true);
    const maker = new TurnMaker({ scale: UNSCALED, maxModelLen: null, bad });
    const made = [first, again, child].map((one) => maker.next(one));
    expect(made.map((turn) => turn && [turn.conversationId, turn.turn])).toEqual([['7', 1], null, ['7', 2]]);
    expect(bad.count).toBe(1);
  });

  it('is refused if neither a delay nor two times say when it comes', () => {
    const [first, delayed, timed] = [0, 1, 2].map((index) =>
      request(index, {
        arrivalMs: index === 1 ? null : 1000 * index,
        inputTokens: 20 + 30 * index,
        origin: { kind: 'session', id: 's', delayMs: index === 1 ? 50 : null },
      }),
    );
    expect(() => turnsOf([first!, delayed!, timed!])).toThrow(
      /made, line 3: it has no delay, and the turn that it follows, on line 2, has no timestamp: wanted a delay on this line or a timestamp on that one;/,
    );
    expect(() => turnsOf([{ ...first!, arrivalMs: null }])).toThrow(
      /made, line 1: it has no timestamp, and no delay after an earlier turn;/,
    );
  });

  it('is found as long as no more conversations than the limit are open, however many turns they have', () => {
    const bad = new BadLines('made', false);
    const maker = new TurnMaker({ scale: UNSCALED, maxModelLen: null, bad }, 2);
    const turns = ['a', 'b', 'b', 'b', 'a', 'c', 'a', 'b'].map((id, index) => {
      const origin = { kind: 'session', id, delayMs: null } as const;
      return maker.next(request(index, { inputTokens: 10 + 20 * index, origin }))!.turn;
    });
    // The third conversation makes it forget the second, whose last turn is the oldest.
    expect(turns).toEqual([1, 1, 2, 3, 2, 1, 3, 1]);
  });

  it('waits for the last token and then for the gap of the trace, divided by the speed-up', () => {
    const turns = turnsOf(
      [first, request(1, { inputTokens: 80, hashIds: [0, 1, 3, 4, 5], arrivalMs: 9000 })],
      { ...UNSCALED, speedUp: 2 },
    );
    expect(turns[1]!.arrival).toEqual({ kind: 'after', index: 0, thinkMs: 4500 });
  });
});

describe('scaling', () => {
  it("keeps the number of blocks, and a follow-up's prompt no shorter than what it continues", () => {
    fc.assert(
      fc.property(
        fc.record({
          input: fc.integer({ min: 1, max: 9000 }),
          output: fc.integer({ min: 1, max: 3000 }),
          more: fc.nat(500),
        }),
        fc.constantFrom(1, 2, 32, 512),
        ({ input, output, more }, lengthDivisor) => {
          const scale = { traceBlockSize: 512, lengthDivisor, speedUp: 1 };
          const a = scaledLengths({ inputTokens: input, outputTokens: output }, scale);
          const b = scaledLengths({ inputTokens: input + output + more, outputTokens: 1 }, scale);
          expect(Math.ceil(a.inputTokens / (512 / lengthDivisor))).toBe(Math.ceil(input / 512));
          if (output >= lengthDivisor)
            expect(b.inputTokens).toBeGreaterThanOrEqual(a.inputTokens + a.outputTokens);
        },
      ),
    );
  });

  it('gives every turn a prompt and an answer of exactly its lengths', () => {
    const blocks = fc.array(fc.nat(6), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(
        fc.array(fc.tuple(blocks, fc.nat(511), fc.integer({ min: 1, max: 900 })), { maxLength: 12 }),
        (rows) => {
          const requests = rows.map(([hashIds, short, outputTokens], index) =>
            request(index, { hashIds, inputTokens: 512 * hashIds.length - short, outputTokens }),
          );
          for (const turn of turnsOf(requests, MOONCAKE)) {
            expect(lengthOf(turn.prompt)).toBe(turn.inputTokens);
            expect(lengthOf(turn.answer)).toBe(turn.outputTokens);
          }
        },
      ),
    );
  });

  it('is described in words', () => {
    expect(describeScale({ ...MOONCAKE, speedUp: 0.1 }, null, null)).toBe(
      "Every length is 1/32 of the trace's: a block of 512 tokens is one of 16; arrivals come at 0.1 of the trace's rate.",
    );
    expect(describeScale(UNSCALED, null, null)).toBe('Lengths and arrivals are as in the trace.');
    expect(describeScale(UNSCALED, null, 10)).toBe(
      'Lengths and arrivals are as in the trace. The trace is cut after request 10.',
    );
    expect(describeScale(UNSCALED, { perSecond: 1, thinkMs: 0 }, null)).toBe(
      'Lengths are as in the trace; it has no times, so 1 conversation begins per second, with exponential gaps, and each next turn comes right after an answer.',
    );
    expect(describeScale({ ...UNSCALED, speedUp: 4 }, { perSecond: 0.5, thinkMs: 10_000 }, null)).toContain(
      '2 conversations begin per second, with exponential gaps, and each next turn comes 2.5 s after an answer.',
    );
  });

  it('is refused if a block would be less than a token', () => {
    const scale = { traceBlockSize: 16, lengthDivisor: 32, speedUp: 1 };
    expect(() => new TurnMaker({ scale, maxModelLen: null, bad: new BadLines('t', false) })).toThrow(
      /16 tokens divided by 32/,
    );
  });
});

describe('a request longer than the context', () => {
  it('is refused with its line, or skipped and counted', () => {
    const long = request(0, { inputTokens: 3000, outputTokens: 200, line: 17 });
    expect(() => turnsOf([long], UNSCALED, 1024)).toThrow(
      /made, line 17: prompt and answer have 3200 tokens and the context holds 1024: .*--skip-bad/,
    );
    const bad = new BadLines('made', true);
    expect(new TurnMaker({ scale: UNSCALED, maxModelLen: 1024, bad }).next(long)).toBeNull();
    expect(bad.describe()).toContain('1 bad line skipped: line 17: prompt and answer have 3200 tokens');
  });
});
