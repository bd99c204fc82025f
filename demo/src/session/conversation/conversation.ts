/** A conversation on the page: its messages and turns, and asking the next question. */
import type { ResumedTurn } from '../../../../src/recording/events.ts';
import type { Recorder } from '../../../../src/recording/recorder.ts';
import type { TurnResult } from '../../../../src/router/turn-types.ts';
import type { Message } from '../../../../src/workload/types.ts';
import type { Settings } from '../settings.ts';

/** Whether it is a user's conversation, not one of a race, sweep or other measurement. */
export const isConversation = ({ conversation }: { conversation: string }): boolean =>
  !/^(race|sweep|crossover|stall)/.test(conversation);

/** Ids of the users' conversations, in the order in which they began. */
export const talksOf = (turns: readonly { conversation: string }[]): string[] => [
  ...new Set(turns.filter(isConversation).map(({ conversation }) => conversation)),
];

export class Conversation {
  readonly id: string;
  #messages: readonly Message[] = [];
  #turns: readonly ResumedTurn[] = [];
  #edited = false;

  constructor(id: string) {
    this.id = id;
  }

  get messages(): readonly Message[] {
    return this.#messages;
  }

  /** Number of the user's questions so far. */
  get asked(): number {
    return this.#messages.filter(({ role }) => role === 'user').length;
  }

  /** Asks a question. The history grows only if the turn succeeds. Throws the engines' errors. */
  async ask(
    recorder: Recorder,
    settings: Settings,
    question: string,
    signal: AbortSignal,
    onText: (text: string) => void = () => {},
  ): Promise<TurnResult> {
    const messages = [...this.#messages, { role: 'user', content: question }];
    const request = { conversationId: this.id, messages, sampling: samplingOf(settings), signal };
    let result: TurnResult | null = null;
    for await (const token of recorder.generate(request, { question, edited: this.#edited })) {
      onText(token.text);
      result = token.final;
    }
    signal.throwIfAborted();
    if (!result) throw new Error('The answer ended without its last token.');
    this.#messages = [...messages, { role: 'assistant', content: result.text }];
    const turn = recorder.lastTurn(this.id);
    if (turn) this.#turns = [...this.#turns, turn];
    this.#edited = false;
    return result;
  }

  /** Computes the history again on emptied engines, so that the next turn finds its KV. Throws the engines' errors. */
  async restoreTurn(recorder: Recorder, settings: Settings, signal: AbortSignal): Promise<void> {
    const last = this.#messages.findLastIndex(({ role }) => role === 'user');
    if (last < 0) return;
    const messages = this.#messages.slice(0, last + 1);
    const request = { conversationId: this.id, messages, sampling: samplingOf(settings), signal };
    await recorder.restoreTurn(this.id, request);
    signal.throwIfAborted();
  }

  /** The turns that have ended. */
  get turns(): readonly ResumedTurn[] {
    return this.#turns;
  }

  /** Takes over a history, for a measurement or from before a reload. */
  resume(messages: readonly Message[], turns: readonly ResumedTurn[] = []): void {
    this.#messages = messages;
    this.#turns = turns;
  }

  /** Replaces a text in the history. Returns the number of messages that had it. */
  edit(from: string, to: string): number {
    const changed = this.#messages.filter(({ content }) => content.includes(from)).length;
    this.#messages = this.#messages.map((message) => ({
      ...message,
      content: message.content.replaceAll(from, to),
    }));
    this.#edited ||= changed > 0;
    return changed;
  }
}

const samplingOf = ({ maxTokens, temperature, seed }: Settings) => ({ maxTokens, temperature, seed });
