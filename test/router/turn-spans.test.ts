import { describe, expect, it } from 'vitest';
import { onHost, type RawSpan, routerSpan, type Span } from '../../src/measure/spans/spans.ts';
import type { Conversation } from '../../src/router/conversation.ts';
import { ServedTurn } from '../../src/router/served-turn.ts';
import { TurnSpans } from '../../src/router/turn-spans.ts';

/** A turn that records the spans it is given. */
class Seen extends ServedTurn {
  readonly seen: Span[] = [];

  constructor(turnId: string) {
    const conversation = {} as Conversation;
    super({
      ...{ turnId, conversation, promptTokenIds: [], heldTokens: 0, routed: null, acceptedMs: 0 },
      again: false,
    });
  }

  override addSpan(span: Span): void {
    this.seen.push(span);
  }
}

const of = (requestIds: readonly string[]): RawSpan => ({
  name: 'forward',
  ...onHost('e'),
  startMs: 0,
  endMs: 1,
  clock: 'host',
  requestId: null,
  requestIds,
  args: {},
});

function listening() {
  const spans = new TurnSpans();
  const heard: Span[] = [];
  spans.listen((span) => heard.push(span));
  return { spans, heard };
}

const prefill = (turnId: string) => ({ turnId, side: 'prefill' }) as const;
const decode = (turnId: string) => ({ turnId, side: 'decode' }) as const;

describe('spans', () => {
  it('get the turns of their requests, whatever the request ids, before turns and listeners see them', () => {
    const { spans, heard } = listening();
    const [a, b] = [new Seen('a'), new Seen('b')];
    for (const turn of [a, b]) spans.turnBegins(turn);
    spans.attribute('x', prefill('a'));
    spans.attribute('y', decode('b'));
    spans.report(of(['x', 'somebody else', 'y']));
    expect(heard[0]!.turns).toEqual([prefill('a'), decode('b')]);
    expect([a.seen, b.seen]).toEqual([heard, heard]);
    spans.report(of(['somebody else']));
    expect(heard[1]!.turns).toEqual([]);
    expect(a.seen).toHaveLength(1);
  });

  it('go to a turn once, even if two of its requests share a step', () => {
    const { spans, heard } = listening();
    const a = new Seen('a');
    spans.turnBegins(a);
    spans.attribute('x', prefill('a'));
    spans.attribute('y', decode('a'));
    spans.report(of(['x', 'y']));
    expect(heard[0]!.turns).toEqual([prefill('a'), decode('a')]);
    expect(a.seen).toHaveLength(1);
  });

  it('of the router belong to the turn that they name', () => {
    const { spans, heard } = listening();
    spans.turnBegins(new Seen('a'));
    spans.report(routerSpan('ttft', 'a', 0, 1));
    expect(heard[0]!.turns).toEqual([prefill('a')]);
  });

  it('that arrive late still get their turn, unless it ended long ago', () => {
    const { spans, heard } = listening();
    const late = new Seen('late');
    spans.turnBegins(late);
    spans.attribute('x', prefill('late'));
    spans.turnEnds(late);
    spans.report(of(['x']));
    expect(heard.at(-1)!.turns).toEqual([prefill('late')]);
    expect(late.seen).toEqual([]);
    for (let i = 0; i < 256; i++) {
      const turn = new Seen(`t${i}`);
      spans.turnBegins(turn);
      spans.turnEnds(turn);
    }
    spans.report(of(['x']));
    expect(heard.at(-1)!.turns).toEqual([]);
  });

  it('of a request cannot be registered before its turn has begun', () => {
    expect(() => new TurnSpans().attribute('x', prefill('a'))).toThrow('x is of turn a, which has not begun');
  });
});
