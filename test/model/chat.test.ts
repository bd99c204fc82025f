import { readFileSync } from 'node:fs';
import { Template } from '@huggingface/jinja';
import { describe, expect, it, vi } from 'vitest';
import { presetTokenIds } from '../../src/model/architecture/presets.ts';
import { loadTokenizer, memorySource } from '../../src/model/load.ts';
import { type ChatMessage, ChatTemplate } from '../../src/model/text/chat.ts';
import type { Tokenizer } from '../../src/model/text/tokenizer.ts';
import { directorySource } from '../../src/platform/node/files.ts';
import { bpe, loadJson } from './small-tokenizer.ts';

const user = (content: string): ChatMessage => ({ role: 'user', content });
const assistant = (content: string): ChatMessage => ({ role: 'assistant', content });

/** The model with its tokenizer's `encode` as a function. */
const withEncode = <T extends { tokenizer: Tokenizer }>(model: T) => ({
  ...model,
  encode: (text: string) => model.tokenizer.encode(text),
});

interface Conversation {
  name: string;
  turns: { user: string; prompt_token_ids: number[]; answer_token_ids: number[]; answer: string }[];
}

describe('the next turn of the recall model', () => {
  const recall = loadTokenizer('recall', directorySource('models/recall')).then(withEncode);
  const { conversations } = JSON.parse(readFileSync('models/recall/expected.json', 'utf8')) as {
    conversations: Conversation[];
  };

  it.each(conversations)('has the token ids of Hugging Face: $name', async ({ turns }) => {
    const { chat, encode } = await recall;
    let messages: ChatMessage[] = [];
    let history: number[] = [];
    for (const turn of turns) {
      const newMessages = [user(turn.user)];
      let encoded = '';
      const recorded = (text: string) => {
        encoded += text;
        return encode(text);
      };
      const prompt =
        history.length === 0
          ? await chat.encodePrompt(newMessages, recorded)
          : await chat.nextTurnPrompt(
              { historyIds: history, messagesBefore: messages, newMessages },
              recorded,
            );
      expect(prompt).toEqual(turn.prompt_token_ids);
      // The history is not encoded again.
      const whole = chat.renderPrompt([...messages, ...newMessages], 'generation_prompt');
      if (history.length > 0)
        expect(encoded.length).toBeLessThan(whole.length - messages.at(-1)!.content.length);
      history = [...prompt, ...turn.answer_token_ids];
      messages = [...messages, ...newMessages, assistant(turn.answer)];
    }
  });

  it('closes a truncated answer and keeps its token ids, although its text would encode to others', async () => {
    const { chat, tokenizer, encode } = await recall;
    const prompt = await chat.encodePrompt([user('hi')], encode);
    const letters = ['h', 'e', 'l', 'l', 'o'].map((letter) => tokenizer.encode(letter)[0]!);
    expect(tokenizer.encode('hello')).not.toEqual(letters);
    const turn = {
      historyIds: [...prompt, ...letters],
      messagesBefore: [user('hi'), assistant('hello')],
      newMessages: [user('and?')],
    };
    const next = await chat.nextTurnPrompt(turn, encode);
    expect(next).toEqual([...prompt, ...letters, 0, 1, ...tokenizer.encode('and?'), 2]);
  });

  it('is refused with the reason that the template gives, or when no answer came before', async () => {
    const { chat, encode } = await recall;
    expect(() => chat.renderPrompt([{ role: 'system', content: 'x' }], 'generation_prompt')).toThrow(
      "the model's chat template rejects the messages: this model knows the roles user and assistant only",
    );
    const turn = { historyIds: [1], messagesBefore: [user('a')], newMessages: [user('b')] };
    const refused = chat.nextTurnPrompt(turn, encode);
    await expect(refused).rejects.toThrow("end with 'user': wanted the assistant's answer");
  });
});

describe('the next turn after an answer that no special token ends', () => {
  const space = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
  const parts = {
    'Llama 2': {
      normalizer: { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, space] },
    },
    Mistral: {
      pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false },
    },
    'bytes, newlines joined': {
      pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true },
      merges: [['Ċ', 'Ċ']],
    },
  };
  const vocab = ['<unk>', '▁', '<0x0A>', 'Ġ', 'Ċ', 'ĊĊ', 'U', 'A', 'a', 'x', 'y'];
  const cases = Object.entries(parts).flatMap(([name, part]) =>
    ['', ' ', '\n', '\n\n'].map((end) => [name, end, part] as const),
  );

  it.each(cases)('begins no text of its own: %s, %j', async (_, end, part) => {
    const tokenizer = await loadJson(bpe(vocab, part));
    const template = `{% for m in messages %}{{ 'U' if m.role == 'user' else 'A' }}{{ m.content }}${end}{% endfor %}{% if add_generation_prompt %}A{% endif %}`;
    const chat = await ChatTemplate.load(memorySource('m', { 'chat_template.jinja': template }), []);
    const historyIds = tokenizer.encode(`Ux${end}Ay`);
    const turn = { messagesBefore: [user('x'), assistant('y')], newMessages: [user('x')] };
    const next = await chat.nextTurnPrompt({ historyIds, ...turn }, (text) => tokenizer.encode(text));
    const whole = tokenizer.encode(`Ux${end}Ay${end}Ux${end}A`);
    expect(next).toEqual(whole);
    expect(whole).not.toContain(0);
    const added = await tokenizer.encodeAfter(`${end}Ux${end}A`, (text) => tokenizer.encode(text));
    expect(added).toEqual(whole.slice(historyIds.length));
    // The history is kept as it is.
    const other = [9, ...historyIds.slice(1)];
    const kept = await chat.nextTurnPrompt({ historyIds: other, ...turn }, (text) => tokenizer.encode(text));
    expect(kept).toEqual([9, ...whole.slice(1)]);
  });
});

describe('a chat template', () => {
  const load = async (template: unknown, more: Record<string, string> = {}) => {
    const { tokenizer } = await loadTokenizer('nano', null);
    const config = { chat_template: template, bos_token: { content: '!' }, eos_token: '\u2404' };
    const files = memorySource('m', { 'tokenizer_config.json': JSON.stringify(config), ...more });
    const chat = await ChatTemplate.load(files, [presetTokenIds.endOfTurn]);
    return withEncode({ tokenizer, chat });
  };
  const loop = (assistantText: string) =>
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}U{{ m['content'] }}\n{% else %}A" +
    `${assistantText}\n{% endif %}{% endfor %}{% if add_generation_prompt %}A{% endif %}`;
  const before = [user('one'), assistant(' two ')];

  it('may add tokens around messages, trim answers, and close without an end token', async () => {
    const { chat, tokenizer, encode } = await load(loop("{{ m['content'] | trim }}"));
    expect(chat.renderPrompt([user('x')], 'generation_prompt')).toBe('!Ux\nA');
    const historyIds = tokenizer.encode('!Uone\nA two ');
    const turn = { historyIds, messagesBefore: before, newMessages: [user('three')] };
    const next = await chat.nextTurnPrompt(turn, encode);
    expect(tokenizer.decode(next)).toBe('!Uone\nA two \nUthree\nA');
  });

  it('renders a plain end or continues the last message, and is refused if it rewrites that message', async () => {
    const { chat } = await load(loop("{{ m['content'] }}"));
    const messages = [user('one'), assistant('A\ntwo ')];
    expect(chat.renderPrompt(messages, 'plain')).toBe('!Uone\nAA\ntwo \n');
    expect(chat.renderPrompt(messages, 'continue')).toBe('!Uone\nAA\ntwo ');
    expect(chat.renderPrompt([user('one')], 'continue')).toBe('!Uone');
    expect(chat.renderPrompt([user('one'), assistant('')], 'continue')).toBe('!Uone\nA');
    const trimmed = await load(loop("{{ m['content'] | trim }}"));
    expect(trimmed.chat.renderPrompt(messages, 'continue')).toBe('!Uone\nAA\ntwo');
    const shortened = await load(loop("{{ m['content'][0:2] }}"));
    expect(() => shortened.chat.renderPrompt(messages, 'continue')).toThrow('rewrites the last message');
  });

  it('continues a message without changing the history', async () => {
    const { chat, tokenizer, encode } = await load(loop("{{ m['content'] }}"));
    const turn = {
      historyIds: [7, 7, 7],
      messagesBefore: before,
      newMessages: [user('three'), assistant('fo')],
    };
    const next = await chat.nextTurnPrompt({ ...turn, end: 'continue' }, encode);
    expect(next).toEqual([7, 7, 7, ...tokenizer.encode('\nUthree\nAfo')]);
  });

  it('that rewrites the history makes the next turn render everything again', async () => {
    const shortened = await load(loop("{{ m['content'][0:2] }}"));
    const turn = { historyIds: [7, 7, 7], messagesBefore: before, newMessages: [user('three')] };
    const whole = [...before, user('three')];
    expect(await shortened.chat.nextTurnPrompt(turn, shortened.encode)).toEqual(
      await shortened.chat.encodePrompt(whole, shortened.encode),
    );
    const last = await load(
      "{% for m in messages %}{{ loop.last }}{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}A{% endif %}",
    );
    expect(await last.chat.nextTurnPrompt(turn, last.encode)).toEqual(
      await last.chat.encodePrompt(whole, last.encode),
    );
  });

  it('may print the time: the history stays valid later', async () => {
    const { chat, encode } = await load(`{{ strftime_now('%Y') }}${loop("{{ m['content'] }}")}`);
    vi.useFakeTimers({ toFake: ['Date'] });
    try {
      vi.setSystemTime(new Date('2026-06-01'));
      const historyIds = await chat.encodePrompt(before.slice(0, -1), encode);
      vi.setSystemTime(new Date('2027-06-01'));
      const turn = { historyIds, messagesBefore: before, newMessages: [user('three')] };
      const next = await chat.nextTurnPrompt(turn, encode);
      expect(next.slice(0, historyIds.length)).toEqual(historyIds);
    } finally {
      vi.useRealTimers();
    }
  });

  it('keeps recent prompts as text for following turns, within a size limit', async () => {
    const { chat, encode } = await load(loop("{{ m['content'] }}"));
    const rendered = vi.spyOn(Template.prototype, 'render');
    /** How often a turn renders the template after the prompts `others` were encoded in between. */
    const rendersAfter = async (others: readonly string[]) => {
      const historyIds = await chat.encodePrompt(before.slice(0, -1), encode);
      for (const other of others) await chat.encodePrompt([user(other)], () => []);
      rendered.mockClear();
      await chat.nextTurnPrompt({ historyIds, messagesBefore: before, newMessages: [user('three')] }, encode);
      return rendered.mock.calls.length;
    };
    const long = 'x'.repeat(2 ** 20);
    const texts = (count: number) => Array.from({ length: count }, (_, i) => `${i}${long}`);
    expect(await rendersAfter([])).toBe(2);
    expect(await rendersAfter(texts(3))).toBe(2);
    expect(await rendersAfter(texts(4))).toBe(3);
    expect(await rendersAfter([long.repeat(5)])).toBe(3);
    expect(await rendersAfter(['a', 'b'])).toBe(2);
    rendered.mockRestore();
  });

  it('is the one named default in a list, and chat_template.jinja takes precedence', async () => {
    const listed = await load([
      { name: 'tools', template: 'T' },
      { name: 'default', template: 'D' },
    ]);
    expect(listed.chat.renderPrompt([], 'plain')).toBe('D');
    const file = await load('C', { 'chat_template.jinja': 'J' });
    expect(file.chat.renderPrompt([], 'plain')).toBe('J');
  });

  it('sees tools and documents as none, as in Hugging Face', async () => {
    const asks = (name: string) => `{% if ${name} is not none %}${name}{% endif %}`;
    const { chat } = await load(`${asks('tools')}${asks('documents')}{{ messages[0].content }}`);
    expect(chat.renderPrompt([user('x')], 'plain')).toBe('x');
  });

  it('is reported when it is missing or cannot be parsed', async () => {
    const { chat } = await load(null);
    expect(chat.exists).toBe(false);
    expect(() => chat.renderPrompt([user('x')], 'generation_prompt')).toThrow(
      'm has no chat template: give prompts as token ids',
    );
    await expect(load('{% if %}')).rejects.toThrow(
      /the chat template of m\/tokenizer_config.json cannot be read/,
    );
    await expect(load('{% if x %}')).rejects.toThrow(
      'cannot be read (it is not complete, or uses syntax that is not supported): correct it',
    );
    await expect(load('C', { 'chat_template.jinja': '{% if %}' })).rejects.toThrow(
      /the chat template of m\/chat_template.jinja cannot be read/,
    );
  });
});
