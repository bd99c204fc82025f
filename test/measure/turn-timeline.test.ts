import { describe, expect, test } from 'vitest';
import { atRouter, onHost, SERVED_AGAIN, type Span, type TurnSide } from '../../src/measure/spans/spans.ts';
import { TimelineKeeper, timelineSchema } from '../../src/measure/spans/turn-timeline.ts';

const span = (
  name: string,
  turnIds: string | readonly string[],
  startMs: number,
  endMs: number,
  more: Partial<Span> = {},
  side: TurnSide = 'prefill',
): Span => ({
  name,
  ...onHost('prefill-0'),
  startMs,
  endMs,
  clock: 'host',
  requestId: null,
  turns: [turnIds].flat().map((turnId) => ({ turnId, side })),
  args: {},
  ...more,
});

const ttft = (turnId: string, turn: number, startMs: number, endMs: number, more = {}): Span =>
  span('ttft', turnId, startMs, endMs, { ...atRouter, args: { conversationId: 'c', turn, ...more } });

const ended = (turn: number, pulled_tokens: number) => ({ conversation_id: 'c', turn, pulled_tokens });

describe('the timeline in a report', () => {
  test('is of the turn that pulled the most, with times from its acceptance on', () => {
    const keeper = new TimelineKeeper();
    for (const [turn, at, pulled] of [
      [1, 100, 0],
      [2, 200, 64],
      [3, 300, 32],
    ] as const) {
      const id = `t${turn}`;
      keeper.add(span('lookup', id, at + 1, at + 2));
      keeper.add(span('slab in', id, at + 2, at + 5, { args: { bytes: 4096 } }));
      keeper.add(span('forward', id, at + 6, at + 9, onHost('decode-0'), 'decode'));
      keeper.add(span('step', id, at + 5, at + 9, {}, 'decode'));
      keeper.add(ttft(id, turn, at, at + 10));
      keeper.turnEnded('bidirectional', ended(turn, pulled));
    }
    const { timeline } = keeper;
    expect(timelineSchema.parse(timeline)).toEqual(timeline);
    expect(timeline).toMatchObject({ mode: 'bidirectional', turn: 2, ttft_ms: 10, left_out: 0 });
    expect(timeline?.spans).toEqual([
      {
        name: 'lookup',
        lane: 'prefill-0 host',
        group: 'lookup',
        start_ms: 1,
        end_ms: 2,
        clock: 'host',
        bytes: null,
      },
      {
        name: 'slab in',
        lane: 'prefill-0 host',
        group: 'pull',
        start_ms: 2,
        end_ms: 5,
        clock: 'host',
        bytes: 4096,
      },
      {
        name: 'forward',
        lane: 'decode-0 host',
        group: 'decode',
        start_ms: 6,
        end_ms: 9,
        clock: 'host',
        bytes: null,
      },
    ]);
  });

  test("is of the turn that counts, not of its audit's other way", () => {
    const keeper = new TimelineKeeper();
    for (const [id, at, ms, more] of [
      ['pulled', 100, 10, {}],
      ['computed', 200, 50, SERVED_AGAIN],
    ] as const) {
      keeper.add(span('lookup', id, at + 1, at + 2));
      keeper.add(ttft(id, 2, at, at + ms, more));
    }
    keeper.turnEnded('bidirectional', ended(2, 64));
    expect(keeper.timeline).toMatchObject({ turn: 2, ttft_ms: 10 });
  });

  test('has spans that its turn shares with other turns, but none of other turns alone', () => {
    const keeper = new TimelineKeeper();
    keeper.add(span('forward', 'a', 1, 2, {}, 'decode'));
    keeper.add(span('forward', ['a', 'b'], 3, 4));
    keeper.add(span('forward', 'b', 5, 6));
    keeper.add(ttft('a', 1, 0, 10));
    keeper.turnEnded('bidirectional', ended(1, 1));
    expect(keeper.timeline?.spans.map(({ start_ms }) => start_ms)).toEqual([1, 3]);
  });

  test('has at most 600 spans; the shortest are left out and counted', () => {
    const keeper = new TimelineKeeper();
    for (let i = 0; i < 1000; i++) keeper.add(span('lookup', 'a', i, i + 0.5 + i / 10_000));
    keeper.add(ttft('a', 1, 0, 1000));
    keeper.turnEnded('bidirectional', ended(1, 0));
    expect(keeper.timeline?.spans).toHaveLength(600);
    expect(keeper.timeline?.left_out).toBe(400);
    expect(keeper.timeline?.spans[0]?.start_ms).toBe(400);
  });

  test('has its spans even if many turns run at once, and is never of a turn without spans', () => {
    const keeper = new TimelineKeeper();
    for (let turn = 1; turn <= 300; turn++) keeper.add(span('forward', `${turn}`, turn, turn + 1));
    for (let turn = 1; turn <= 300; turn++) {
      keeper.add(ttft(`${turn}`, turn, 0, 400));
      keeper.turnEnded('bidirectional', ended(turn, turn === 1 ? 9 : 0));
    }
    expect(keeper.timeline).toMatchObject({ turn: 1, spans: [{ start_ms: 1 }] });
    keeper.add(ttft('unseen', 301, 0, 400));
    keeper.turnEnded('bidirectional', ended(301, 10));
    expect(keeper.timeline).toMatchObject({ turn: 1 });
  });

  test('is null if no spans were seen', () => {
    const keeper = new TimelineKeeper();
    keeper.turnEnded('monolithic', ended(1, 0));
    expect(keeper.timeline).toBeNull();
  });
});
