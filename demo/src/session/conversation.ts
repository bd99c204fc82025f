/** A conversation as the page keeps it: what was said, and how the next thing is asked. */
import type { ResumedTurn } from '../../../src/recording/events.ts';
import type { Recorder } from '../../../src/recording/recorder.ts';
import type { TurnResult } from '../../../src/router/turn-types.ts';
import type { Message } from '../../../src/workload/types.ts';
import type { Settings } from './settings.ts';

/** Races, sweeps and other measurements ask too; these are not the user's conversation. */
export const isConversation = ({ conversation }: { conversation: string }): boolean =>
  !/^(race|sweep|crossover|stall)/.test(conversation);

/** The user's conversations, in the order in which they began. */
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

  /** The user's questions so far. */
  get asked(): number {
    return this.#messages.filter(({ role }) => role === 'user').length;
  }

  /** The history grows only when the turn ends well. Throws what the engines throw. */
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

  /** Has engines that were emptied compute what was said, so that the next turn finds it. Throws what the engines throw. */
  async retell(recorder: Recorder, settings: Settings, signal: AbortSignal): Promise<void> {
    const last = this.#messages.findLastIndex(({ role }) => role === 'user');
    if (last < 0) return;
    const messages = this.#messages.slice(0, last + 1);
    const request = { conversationId: this.id, messages, sampling: samplingOf(settings), signal };
    await recorder.retell(this.id, request);
    signal.throwIfAborted();
  }

  /** Its turns so far, as they ended. */
  get turns(): readonly ResumedTurn[] {
    return this.#turns;
  }

  /** Takes a history over: for measurements, or of the page before a reload. */
  resume(messages: readonly Message[], turns: readonly ResumedTurn[] = []): void {
    this.#messages = messages;
    this.#turns = turns;
  }

  /** Changes what was said. Returns how many messages had it. */
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
