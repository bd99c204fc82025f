/** The page's conversation: the user's questions or the shipped ones, and a second user's conversation if set. */
import { systemClock } from '../../../../src/platform/clock.ts';
import type { Message } from '../../../../src/workload/types.ts';
import { readingMs } from '../reading.ts';
import type { Settings } from '../settings.ts';
import type { Workbench } from '../workbench.ts';
import { Conversation } from './conversation.ts';
import { forgetConversation, keepConversation, keptConversation } from './kept-conversation.ts';
import { script, secondScript, suggest } from './suggestions.ts';

/** The second user asks when the first has this many tokens: users do not ask at the same instant. */
const SECOND_AFTER = 3;

export class Talk {
  readonly #bench: Workbench;
  #count = 0;
  #chat: Conversation;
  #second: Conversation | null = null;
  /** Number of play() calls. An earlier call stops when it sees a newer one. */
  #plays = 0;

  constructor(bench: Workbench) {
    this.#bench = bench;
    this.#chat = this.#newConversation();
    this.#suggest();
  }

  get messages(): readonly Message[] {
    return this.#chat.messages;
  }

  async ask(question: string): Promise<void> {
    this.#bench.state.playing.value = false;
    const refusal = this.#tooLong(question);
    if (refusal !== null) {
      this.#bench.note('warning', refusal);
      return;
    }
    await this.#bench.exclusive('Answering', (signal) => this.#turn(this.#chat, question, signal));
    this.#suggest();
  }

  /** Why a question is far too long; null if it may fit. Turning 1 MB into tokens takes seconds, during which the page stands. */
  #tooLong(question: string): string | null {
    const cluster = this.#bench.engines.running?.cluster;
    if (!cluster) return null;
    const { maxModelLen } = cluster.info.model;
    const least = Math.ceil(question.length / cluster.text.tokenizer.mostCharacters);
    if (least < maxModelLen) return null;
    return `The question has at least ${least} tokens, and the model's context has ${maxModelLen}: shorten the question.`;
  }

  /** Continues the shipped conversation until `until` of its turns were asked, or the user pauses. */
  async play(until = script.length): Promise<void> {
    const { playing } = this.#bench.state;
    const play = ++this.#plays;
    const goesOn = () => playing.value && play === this.#plays;
    playing.value = true;
    while (goesOn() && this.#chat.asked < until) {
      if (!(await this.step())) break;
      if (goesOn() && this.#chat.asked < until) await systemClock.sleep(readingMs(this.#bench.settings));
    }
    if (play === this.#plays) playing.value = false;
  }

  /** Asks the shipped conversation's next turn. Returns false if there is none, or if it was not answered. */
  async step(): Promise<boolean> {
    const asked = this.#chat.asked;
    const question = script[asked];
    if (question === undefined) {
      this.#bench.note('info', 'The shipped conversation has ended: ask your own questions, or press Reset.');
      return false;
    }
    await this.#bench.exclusive('Answering', async (signal) => {
      let begin = () => {};
      const begun = new Promise<void>((resolve) => {
        begin = resolve;
      });
      let tokens = 0;
      const first = this.#turn(this.#chat, question, signal, () => {
        if (++tokens === SECOND_AFTER) begin();
      });
      // Or when the first answer ends: it can be shorter.
      const second = Promise.race([begun, first]).then(() => this.#askSecond(asked, signal));
      const ends = await Promise.allSettled([first, second]);
      for (const end of ends) if (end.status === 'rejected') throw end.reason;
    });
    this.#suggest();
    const answered = this.#chat.asked > asked;
    const { settings } = this.#bench;
    if (answered && this.#chat.asked > settings.turns) {
      this.#bench.setSettings({ ...settings, turns: this.#chat.asked });
    }
    return answered;
  }

  /** Replaces a text in the history. Returns the number of messages that had it. */
  edit(from: string, to: string): number {
    const edited = this.#chat.edit(from, to);
    const { id: conversation } = this.#chat;
    if (edited > 0)
      this.#bench.emit({ kind: 'history_edited', atMs: this.#bench.nowMs(), conversation, from, to });
    return edited;
  }

  /** Computes the conversations' KV again on emptied engines. Returns false if nothing has been said yet. */
  async takeAlong(signal: AbortSignal): Promise<boolean> {
    const { engines, settings } = this.#bench;
    const told = [this.#chat, this.#second].filter((conversation) => (conversation?.asked ?? 0) > 0);
    for (const conversation of told)
      await conversation!.restoreTurn(engines.running!.recorder, settings, signal);
    return told.length > 0;
  }

  /** Continues the conversation that the tab kept. Returns false if there is none. */
  async resume(): Promise<boolean> {
    const { engines, settings } = this.#bench;
    if (!engines.running || !keepsConversation(settings)) return false;
    const kept = await keptConversation(settings);
    if (!kept) return false;
    const { id, messages, tokenIds, turns } = kept;
    this.#count = Math.max(this.#count, Number(/\d+$/.exec(id)?.[0] ?? 0));
    this.#chat = new Conversation(id);
    this.#chat.resume(messages, turns);
    engines.running.cluster.resumeConversation(id, { turns: turns.length, tokenIds, messages });
    engines.running.recorder.resume(id, tokenIds, turns);
    this.#suggest();
    return true;
  }

  #keep(): void {
    const { engines, settings } = this.#bench;
    const { id, messages, turns } = this.#chat;
    const history = keepsConversation(settings) ? engines.running?.cluster.historyOf(id) : null;
    if (history) keepConversation(settings, { id, messages, turns, tokenIds: history.tokenIds });
    // What was kept lacks this turn, so it is out of date.
    else this.#forgetKept();
  }

  /** Forgets the kept conversation, except in a lesson: lessons leave the user's conversation alone. */
  #forgetKept(): void {
    if (this.#bench.settings.lesson === null) forgetConversation();
  }

  /** Begins a new conversation and releases D's blocks of the old one. */
  async forget(): Promise<void> {
    const recorder = this.#bench.engines.running?.recorder;
    for (const conversation of [this.#chat, this.#second]) {
      if (!conversation) continue;
      const { id } = conversation;
      // If its engine is gone, there is nothing to release.
      await recorder?.endConversation(id).catch(() => {});
      this.#bench.emit({ kind: 'conversation_ended', atMs: this.#bench.nowMs(), conversation: id });
    }
    this.#forgetKept();
    this.#chat = this.#newConversation();
    this.#second = null;
    this.#suggest();
  }

  /** The conversation so far; if it is empty, the shipped conversation's first story, to measure with. */
  async history(signal: AbortSignal): Promise<readonly Message[]> {
    if (this.#chat.asked > 0) return this.#chat.messages;
    const conversation = new Conversation('race-story');
    const { recorder } = this.#bench.engines.running!;
    try {
      for (const line of script.slice(0, 2)) {
        await conversation.ask(recorder, this.#bench.settings, line, signal);
      }
    } finally {
      // If its engine is gone, there is nothing to release.
      await recorder.endConversation(conversation.id).catch(() => {});
    }
    return conversation.messages;
  }

  #suggest(): void {
    this.#bench.state.suggestions.value = suggest(this.#bench.settings.model, this.#chat.messages);
  }

  /** Asks the second user's version of the first user's question. Does nothing with one user. */
  async #askSecond(asked: number, signal: AbortSignal): Promise<void> {
    if (this.#bench.settings.conversations !== 2) return;
    this.#second ??= this.#newConversation();
    await this.#turn(this.#second, secondScript[asked]!, signal);
  }

  async #turn(
    conversation: Conversation,
    question: string,
    signal: AbortSignal,
    onText: () => void = () => {},
  ): Promise<void> {
    const { engines, settings } = this.#bench;
    if (!engines.running) throw new Error('The engines are not running: choose a model, or reload the page.');
    await conversation.ask(engines.running.recorder, settings, question, signal, onText);
    if (conversation === this.#chat) this.#keep();
  }

  #newConversation(): Conversation {
    return new Conversation(`chat-${++this.#count}`);
  }
}

/** Whether the conversation is kept across reloads: if KV is kept in a folder, and not in a lesson. */
const keepsConversation = ({ storeDir, lesson }: Settings): boolean => storeDir !== null && lesson === null;
