/**
 * Renders messages to prompts with the model's chat template. For a next turn, the prompt keeps the history as the
 * token ids that the engines saw: the text of sampled tokens need not encode to the same ids.
 */
import { Template } from '@huggingface/jinja';
import { z } from 'zod';
import { ModelError, RequestError } from '../../errors.ts';
import type { FileSource } from '../../platform/types.ts';
import { pathOf, readJson } from '../architecture/json-file.ts';
import { type Encode, encodeAfter } from './text-after.ts';
import { tokenText } from './tokenizer.ts';

export interface ChatMessage {
  /** 'system', 'user' or 'assistant'. The template decides which roles it accepts. */
  role: string;
  content: string;
}

/**
 * How a prompt ends: with the header of an answer, with nothing more, or with the last message left open to be
 * continued.
 */
export type PromptEnd = 'generation_prompt' | 'plain' | 'continue';

export interface NextTurn {
  /** Prompt and generated tokens of the last turn, with or without a closing end token. */
  historyIds: readonly number[];
  /** All messages so far. The last is the assistant's and has the generated text. */
  messagesBefore: readonly ChatMessage[];
  /** The messages after it. */
  newMessages: readonly ChatMessage[];
  /** Default: 'generation_prompt', the header of an answer. */
  end?: PromptEnd;
}

const configSchema = z.looseObject({
  chat_template: z
    .union([z.string(), z.array(z.object({ name: z.string(), template: z.string() }))])
    .nullish(),
});

/** Most rendered prompts to keep: a conversation's next prompt begins with its last one. */
const MOST_KEPT = 64;
/** Most characters of those prompts and their messages: 16 MiB. */
const MOST_KEPT_CHARACTERS = 8 * 2 ** 20;

/** Placeholder for an answer while the template is rendered. No template or tokeniser treats it specially. */
const ANSWER = 'kvferryAnswerGoesHere';

export class ChatTemplate {
  #template: Template | null;
  #variables: Readonly<Record<string, string>>;
  #endTokenIds: ReadonlySet<number>;
  #location: string;
  /** Rendered prompts that end with an answer's header, by their messages. The oldest is dropped first. */
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

  /**
   * Reads chat_template.jinja, else the template in tokenizer_config.json. A model without a template can still be
   * prompted with token ids. Throws ModelError if the template cannot be parsed.
   */
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
      // The parser fails with a TypeError where a template ends too early.
      const why =
        error instanceof TypeError
          ? 'it is not complete, or uses syntax that is not supported'
          : (error as Error).message;
      throw new ModelError(
        `the chat template of ${pathOf(files, file === null ? 'tokenizer_config.json' : 'chat_template.jinja')} cannot be read (${why}): correct it`,
        { cause: error },
      );
    }
    return new ChatTemplate(template, variables, endTokenIds, files.location);
  }

  /** False: renderPrompt and nextTurnPrompt throw ModelError. */
  get exists(): boolean {
    return this.#template !== null;
  }

  /**
   * The prompt as text. Throws RequestError if the template rejects the messages, and ModelError if there is no
   * template.
   */
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
        // Hugging Face defines these as None when absent, and templates test for that.
        tools: null,
        documents: null,
        messages: messages.map(({ role, content }) => ({ role, content })),
        add_generation_prompt: addGenerationPrompt,
      });
    } catch (error) {
      throw new RequestError(`the model's chat template rejects the messages: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  /**
   * Token ids of a prompt that starts from messages alone, such as the first turn's. Rejects where renderPrompt throws.
   */
  async encodePrompt(
    messages: readonly ChatMessage[],
    encode: Encode,
    end: PromptEnd = 'generation_prompt',
  ): Promise<readonly number[]> {
    const prompt = this.renderPrompt(messages, end);
    this.#keep(messages, end, prompt);
    return encode(prompt);
  }

  /**
   * `historyIds`, followed by the ids of what the template adds after the assistant's answer. If the template rewrites
   * earlier messages, or the tokeniser joins the answer to what follows, the whole prompt is rendered and encoded again. Rejects where renderPrompt throws.
   */
  async nextTurnPrompt(turn: NextTurn, encode: Encode): Promise<readonly number[]> {
    const tail = this.#textAfterAnswer(turn);
    const tailIds = tail === null ? null : await encodeAfter(tail, encode);
    if (tailIds === null)
      return this.encodePrompt([...turn.messagesBefore, ...turn.newMessages], encode, turn.end);
    // The model may have generated its end token. The template's end of the same turn must not repeat it.
    const closed = this.#isEnd(turn.historyIds.at(-1)) && this.#isEnd(tailIds[0]);
    return [...turn.historyIds, ...tailIds.slice(closed ? 1 : 0)];
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

  /** Removes the entry: a prompt that the next turn has used is rarely needed again. */
  #takeKept(messages: readonly ChatMessage[]): string | undefined {
    return this.#dropKept(keyOf(messages));
  }

  /**
   * Cuts the prompt after the last message's content, with or without the surrounding spaces that a template may trim
   * (transformers' continue_final_message).
   */
  #upToLastContent(messages: readonly ChatMessage[], rendered: string): string {
    const last = messages.at(-1);
    if (!last) throw new RequestError('there is no message to continue: give one');
    const marked = this.#render([...messages.slice(0, -1), { ...last, content: ANSWER }], false);
    const before = marked.slice(0, Math.max(0, marked.lastIndexOf(ANSWER)));
    const kept = [last.content, last.content.trim()].find((content) => rendered.startsWith(before + content));
    if (kept === undefined) {
      throw new RequestError(
        "the model's chat template rewrites the last message, so it cannot be continued: omit continue_final_message (in the library, promptEnd)",
      );
    }
    return before + kept;
  }

  #isEnd(tokenId: number | undefined): boolean {
    return tokenId !== undefined && this.#endTokenIds.has(tokenId);
  }

  /** The text after the answer; null if the new prompt is not the last prompt and answer with text added. */
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
    // The kept prompt may not match even if nothing was rewritten: a template may print the time.
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
    // Templates may trim an answer. Any other difference is a rewrite.
    return rendered.trim() === answer.content.trim() ? tail : null;
  }
}

const keyOf = (messages: readonly ChatMessage[]): string =>
  JSON.stringify(messages.map(({ role, content }) => [role, content]));
