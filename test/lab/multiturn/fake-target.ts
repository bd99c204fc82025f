/** Conversations with two-token answers, and a bench target that gives them without an engine. */
import type { AnsweredTurn, BenchTarget, TurnToSend } from '../../../src/lab/multiturn/target.ts';
import type { BenchConversation } from '../../../src/workload/types.ts';

export const conversation = (id: string, turns: number): BenchConversation => ({
  id,
  turns: Array.from({ length: turns }, (_, turn) => ({
    content: { kind: 'tokens', tokenIds: [100 + turn] },
    inputTokens: 1,
    outputTokens: 2,
  })),
});

export const answeredTurn = (output: number[]): AnsweredTurn => ({
  ttftMs: 5,
  latencyMs: 8,
  gapsMs: [3],
  inputTokens: null,
  outputTokens: output.length,
  chunks: output.length,
  output,
  answer: { kind: 'tokens', tokenIds: output },
  account: { localHitTokens: null, pulledTokens: null, computedTokens: null },
  stagesMs: {},
  bytesPToD: null,
  bytesDToP: null,
});

/** Answers on the next event-loop turn, with two tokens derived from the turn number. */
export class FakeTarget implements BenchTarget {
  readonly sent: TurnToSend[] = [];
  readonly ended: string[] = [];
  underWay = 0;
  most = 0;
  readonly #fails: (turn: TurnToSend) => Error | null;

  constructor(fails: (turn: TurnToSend) => Error | null = () => null) {
    this.#fails = fails;
  }

  async send(turn: TurnToSend): Promise<AnsweredTurn> {
    this.sent.push(turn);
    this.most = Math.max(this.most, ++this.underWay);
    await new Promise((resolve) => setImmediate(resolve));
    this.underWay--;
    const error = this.#fails(turn);
    if (error) throw error;
    const output = [10 * turn.turn, 10 * turn.turn + 1];
    return answeredTurn(output);
  }

  async endConversation(id: string): Promise<void> {
    this.ended.push(id);
  }

  async settled(): Promise<void> {}
}
