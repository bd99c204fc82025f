/**
 * Messages to a prompt, by the model's chat template; and a next turn's prompt that keeps the history as the token ids
 * that the engines saw, since text that a model generated need not encode to the ids that it sampled.
 */
import { Template } from '@huggingface/jinja';
import { z } from 'zod';
import { ModelError, RequestError } from '../errors.ts';
import type { FileSource } from '../platform/types.ts';
import { pathOf, readJson } from './json-file.ts';
import { tokenText } from './tokenizer.ts';

export interface ChatMessage {
  /** 'system', 'user' or 'assistant'; which of them a model knows is its template's choice. */
  role: string;
  content: string;
}

/** What a prompt ends with: the head of an answer, nothing more, or the last message without its end, to be gone on with. */
export type PromptEnd = 'generation_prompt' | 'plain' | 'continue';

/** Text to ids, without special tokens: a tokenizer here, or one in another thread. */
type Encode = (text: string) => readonly number[] | Promise<readonly number[]>;

export interface NextTurn {
  /** Prompt and generated tokens of the last turn, with or without a closing end token. */
  historyIds: readonly number[];
  /** All messages so far; the last one is the assistant's, with the text of what was generated. */
  messagesBefore: readonly ChatMessage[];
  /** What follows it. */
  newMessages: readonly ChatMessage[];
  /** Left out: the head of an answer. */
  end?: PromptEnd;
}

export interface NextTurnPrompt {
  promptTokenIds: readonly number[];
  /** False: the template rewrites earlier messages, so the whole prompt was rendered and encoded anew. */
  keepsHistory: boolean;
}

const configSchema = z.looseObject({
  chat_template: z
    .union([z.string(), z.array(z.object({ name: z.string(), template: z.string() }))])
    .nullish(),
});

/** Prompts that are kept as text: a conversation's last one is what its next one begins with. */
const MOST_KEPT = 64;
/** Of them and their messages together: 16 MiB at most. */
const MOST_KEPT_CHARACTERS = 8 * 2 ** 20;

/** Stands for an answer while a template is rendered around it; no template and no tokenizer treats it specially. */
const ANSWER = 'kvferryAnswerGoesHere';

export class ChatTemplate {
  #template: Template | null;
  #variables: Readonly<Record<string, string>>;
  #endTokenIds: ReadonlySet<number>;
  #location: string;
  /** With an answer's head, by their messages; the first that came goes first. */
  readonly #kept = new Map<string, string>();
  #keptCharacters = 0;

  private constructor(
    template: Template | null,
    variables: Readonly<Record<string, string>>,
    endTokenIds: readonly number[],
    location: string,
  ) {
    this.#template = template;
    this.#variables = variables;
    this.#endTokenIds = new Set(endTokenIds);
    this.#location = location;
  }

  /** From chat_template.jinja, or tokenizer_config.json. A model without one can still be given token ids. */
  static async load(files: FileSource, endTokenIds: readonly number[]): Promise<ChatTemplate> {
    const config = (await readJson(files, 'tokenizer_config.json', configSchema)) ?? {};
    const listed = config.chat_template;
    const file = await files.readText('chat_template.jinja');
    const source =
      file ??
      (Array.isArray(listed) ? listed.find(({ name }) => name === 'default')?.template : listed) ??
      null;
    const variables: Record<string, string> = {};
    for (const name of ['bos_token', 'eos_token', 'unk_token', 'pad_token']) {
      const text = tokenText((config as Record<string, unknown>)[name]);
      if (text !== null) variables[name] = text;
    }
    let template: Template | null = null;
    try {
      if (source !== null) template = new Template(source);
    } catch (error) {
      throw new ModelError(
        `the chat template of ${pathOf(files, file === null ? 'tokenizer_config.json' : 'chat_template.jinja')} cannot be read (${(error as Error).message}): correct it`,
        { cause: error },
      );
    }
    return new ChatTemplate(template, variables, endTokenIds, files.location);
  }

  /** False: renderPrompt and nextTurnPrompt throw. */
  get exists(): boolean {
    return this.#template !== null;
  }

  /** The prompt as text. Throws RequestError when the template refuses the messages, ModelError when there is none. */
  renderPrompt(messages: readonly ChatMessage[], end: PromptEnd): string {
    const rendered = this.#render(messages, end === 'generation_prompt');
    return end === 'continue' ? this.#upToLastContent(messages, rendered) : rendered;
  }

  #render(messages: readonly ChatMessage[], addGenerationPrompt: boolean): string {
    if (!this.#template) {
      throw new ModelError(
        `${this.#location} has no chat template: give prompts as token ids, or use a chat model`,
      );
    }
    try {
      return this.#template.render({
        ...this.#variables,
        // Hugging Face names those too that there are none of: templates ask whether they are none.
        tools: null,
        documents: null,
        messages: messages.map(({ role, content }) => ({ role, content })),
        add_generation_prompt: addGenerationPrompt,
      });
    } catch (error) {
      throw new RequestError(`the model's chat template refuses the messages: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  /** The first turn's prompt, or any that starts from messages alone. Rejects as renderPrompt throws. */
  async encodePrompt(
    messages: readonly ChatMessage[],
    encode: Encode,
    end: PromptEnd = 'generation_prompt',
  ): Promise<readonly number[]> {
    const prompt = this.renderPrompt(messages, end);
    this.#keep(messages, end, prompt);
    return encode(prompt);
  }

  /** historyIds, then the ids of what the template puts after the assistant's answer. Rejects as renderPrompt throws. */
  async nextTurnPrompt(turn: NextTurn, encode: Encode): Promise<NextTurnPrompt> {
    const tail = this.#textAfterAnswer(turn);
    if (tail === null) {
      const whole = [...turn.messagesBefore, ...turn.newMessages];
      const promptTokenIds = await this.encodePrompt(whole, encode, turn.end);
      return { promptTokenIds, keepsHistory: false };
    }
    const tailIds = await encode(tail);
    // The model may have ended its turn itself; the template's end of the same turn must not be a second one.
    const closed = this.#isEnd(turn.historyIds.at(-1)) && this.#isEnd(tailIds[0]);
    return { promptTokenIds: [...turn.historyIds, ...tailIds.slice(closed ? 1 : 0)], keepsHistory: true };
  }

  #keep(messages: readonly ChatMessage[], end: PromptEnd, prompt: string): void {
    if (end !== 'generation_prompt') return;
    const key = keyOf(messages);
    this.#dropKept(key);
    this.#kept.set(key, prompt);
    this.#keptCharacters += key.length + prompt.length;
    for (const first of this.#kept.keys()) {
      if (this.#kept.size <= MOST_KEPT && this.#keptCharacters <= MOST_KEPT_CHARACTERS) break;
      this.#dropKept(first);
    }
  }

  #dropKept(key: string): string | undefined {
    const prompt = this.#kept.get(key);
    if (prompt !== undefined) this.#keptCharacters -= key.length + prompt.length;
    this.#kept.delete(key);
    return prompt;
  }

  /** What a conversation's next prompt goes on from is hardly asked for again. */
  #takeKept(messages: readonly ChatMessage[]): string | undefined {
    return this.#dropKept(keyOf(messages));
  }

  /** Whole, or without the spaces around it that a template leaves out (transformers' continue_final_message). */
  #upToLastContent(messages: readonly ChatMessage[], rendered: string): string {
    const last = messages.at(-1);
    if (!last) throw new RequestError('there is no message to go on with: give one');
    const marked = this.#render([...messages.slice(0, -1), { ...last, content: ANSWER }], false);
    const before = marked.slice(0, Math.max(0, marked.lastIndexOf(ANSWER)));
    const kept = [last.content, last.content.trim()].find((content) => rendered.startsWith(before + content));
    if (kept === undefined) {
      throw new RequestError(
        "the model's chat template rewrites the last message, so that there is no going on with it: leave continue_final_message out",
      );
    }
    return before + kept;
  }

  #isEnd(tokenId: number | undefined): boolean {
    return tokenId !== undefined && this.#endTokenIds.has(tokenId);
  }

  /** null when the template does not simply continue the last turn's prompt and answer. */
  #textAfterAnswer({ messagesBefore, newMessages, end = 'generation_prompt' }: NextTurn): string | null {
    const answer = messagesBefore.at(-1);
    if (answer?.role !== 'assistant') {
      throw new RequestError(
        `the messages before a next turn end with '${answer?.role ?? 'nothing'}': wanted the assistant's answer`,
      );
    }
    const asked = messagesBefore.slice(0, -1);
    const marked = this.renderPrompt([...asked, { ...answer, content: ANSWER }, ...newMessages], end);
    const kept = this.#takeKept(asked);
    // A template may write the time.
    const goesOn = kept !== undefined && marked.startsWith(kept + ANSWER);
    const before = goesOn ? kept : this.renderPrompt(asked, 'generation_prompt');
    if (!marked.startsWith(before + ANSWER)) return null;
    const tail = marked.slice(before.length + ANSWER.length);
    const all = [...messagesBefore, ...newMessages];
    const whole = this.renderPrompt(all, end);
    this.#keep(all, end, whole);
    if (whole.length < before.length + tail.length) return null;
    if (!whole.startsWith(before) || !whole.endsWith(tail)) return null;
    const rendered = whole.slice(before.length, whole.length - tail.length);
    // Templates may trim an answer; anything more is a rewrite.
    return rendered.trim() === answer.content.trim() ? tail : null;
  }
}

const keyOf = (messages: readonly ChatMessage[]): string =>
  JSON.stringify(messages.map(({ role, content }) => [role, content]));
