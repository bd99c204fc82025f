/** A turn's prompt as token ids, and a turn taken back. */
import { describe, expect, it } from 'vitest';
import { encodeAfter } from '../../src/model/text/text-after.ts';
import type { Conversation } from '../../src/router/conversation.ts';
import { ConversationCache } from '../../src/router/conversations.ts';
import { PromptBuilder, type TurnText } from '../../src/router/prompts.ts';
import { takeBack } from '../../src/router/rewind.ts';
import type { GenerateRequest, Message } from '../../src/router/turn-types.ts';
import { FakeEngine } from './fake-engine.ts';

const codes = (written: string) => [...written].map((c) => c.charCodeAt(0));
const words = (messages: readonly Message[]) => messages.map(({ content }) => content).join('');

const text: TurnText = {
  architecture: { eosTokenIds: [] },
  tokenizer: { encode: codes, streamDecoder: () => ({ push: () => '', end: () => '' }) },
  chat: {
    encodePrompt: async (messages, encode, end) => encode(`${words(messages)}|${end}`),
    nextTurnPrompt: async ({ historyIds, messagesBefore, newMessages, end }, encode) => {
      const added = await encode(`${messagesBefore.length}+${words(newMessages)}|${end}`);
      return [...historyIds, ...added];
    },
  },
};

const user = (content: string) => ({ role: 'user', content });
const assistant = (content: string) => ({ role: 'assistant', content });

const CLOCK = { now: () => 0, sleep: async () => {} };
const REWIND = { blockSize: 16, windowed: false, clock: CLOCK, newId: (name: string) => name };

function conversation(changes: Partial<Conversation>): Conversation {
  const made = new ConversationCache(CLOCK).open({ conversationId: 'c' });
  return Object.assign(made, changes);
}

const build = (
  request: Partial<GenerateRequest>,
  known: Partial<Conversation> | null = null,
  tokenizer: Partial<TurnText['tokenizer']> = {},
) => {
  const own = { ...text, tokenizer: { ...text.tokenizer, ...tokenizer } };
  return new PromptBuilder(own).build(request, known && conversation(known));
};

describe('a prompt', () => {
  it('of token ids is used unchanged', async () => {
    expect(await build({ promptTokenIds: [1, 2] })).toEqual([1, 2]);
    expect(await build({ promptTokenIds: [] })).toEqual([]);
  });

  it('of text is encoded, by the request’s own encoder if it has one', async () => {
    expect(await build({ promptText: 'ab' })).toEqual(codes('ab'));
    expect(await build({ promptText: 'ab', encode: async () => [7] })).toEqual([7]);
  });

  it('of text that continues a conversation keeps the ids of its history', async () => {
    expect(await build({ promptText: 'abcd' }, { text: 'ab', historyIds: [1, 2, 3] })).toEqual([
      1,
      2,
      3,
      ...codes('cd'),
    ]);
    expect(await build({ promptText: 'xbcd' }, { text: 'ab', historyIds: [1, 2, 3] })).toEqual(codes('xbcd'));
  });

  it('of text that continues a conversation is encoded as it would be after the text before', async () => {
    const known = { text: 'ab', historyIds: [1, 2, 3] };
    // As Llama 2's: puts a space before every text.
    const spaced = { encodeAfter, encode: (written: string) => codes(` ${written}`) };
    for (const more of ['cd', ' cd', '\ncd'])
      expect(await build({ promptText: `ab${more}` }, known, spaced)).toEqual([1, 2, 3, ...codes(more)]);
    // Joins a newline to what follows: then the ids depend on what came before.
    const joining = { encodeAfter, encode: (written: string) => codes(written.replace('\nc', 'j')) };
    expect(await build({ promptText: 'abcd' }, known, joining)).toEqual(codes('abcd'));
  });

  it('of text gets the special tokens once, if they are requested', async () => {
    const begun = { withSpecialTokens: (ids: readonly number[]) => [9, ...ids] };
    const asked = { promptText: 'abcd', addSpecialTokens: true };
    expect(await build(asked, null, begun)).toEqual([9, ...codes('abcd')]);
    expect(await build({ promptText: 'abcd' }, null, begun)).toEqual(codes('abcd'));
    expect(await build(asked)).toEqual(codes('abcd'));
    const with9 = { text: 'ab', historyIds: [9, 1, 2], specialTokens: true };
    expect(await build(asked, with9, begun)).toEqual([9, 1, 2, ...codes('cd')]);
    // A history with other special tokens is another prompt.
    expect(await build({ promptText: 'abcd' }, with9, begun)).toEqual(codes('abcd'));
    const without = { text: 'ab', historyIds: [1, 2] };
    expect(await build(asked, without, begun)).toEqual([9, ...codes('abcd')]);
    expect(await build({ promptText: 'abcd' }, without, begun)).toEqual([1, 2, ...codes('cd')]);
    expect(await build(asked, without)).toEqual([1, 2, ...codes('cd')]);
    // A text may itself begin with those tokens; what counts is what was requested.
    const itself = { text: 'ab', historyIds: [9, 2] };
    expect(await build({ promptText: 'abcd' }, itself, begun)).toEqual([9, 2, ...codes('cd')]);
    expect(await build(asked, itself, begun)).toEqual([9, ...codes('abcd')]);
  });

  it('of messages ends with the generation prompt, or as requested', async () => {
    expect(await build({ messages: [user('a')] })).toEqual(codes('a|generation_prompt'));
    expect(await build({ messages: [user('a')], promptEnd: 'plain' })).toEqual(codes('a|plain'));
    const going = { messages: [user('a'), assistant('b')], promptEnd: 'continue' } as const;
    expect(await build(going)).toEqual(codes('ab|continue'));
  });

  it('of messages that continue a conversation tokenises only the new ones', async () => {
    const known = { messages: [user('a'), assistant('b')], historyIds: [1, 2] };
    expect(await build({ messages: [user('a'), assistant('b'), user('c')] }, known)).toEqual([
      1,
      2,
      ...codes('2+c|generation_prompt'),
    ]);
    expect(await build({ messages: [user('x'), assistant('b'), user('c')] }, known)).toEqual(
      codes('xbc|generation_prompt'),
    );
  });

  it('is refused if it is missing, of more than one kind, or ends with the assistant', async () => {
    await expect(build({})).rejects.toThrow('no messages, promptTokenIds or promptText: give one');
    await expect(build({ messages: [] })).rejects.toThrow('messages are empty: give at least one');
    await expect(build({ messages: [user('a')], promptText: 'a' })).rejects.toThrow('more than one of');
    await expect(build({ messages: [user('a'), assistant('b')] })).rejects.toThrow('ends with the assistant');
  });
});

describe('a turn taken back', () => {
  function world() {
    const forgotten: unknown[] = [];
    const engine = (id: string, role: 'prefill' | 'decode') =>
      Object.assign(new FakeEngine(id, role), {
        forgetPrefix: async (...args: unknown[]) => {
          forgotten.push([id, ...args]);
        },
      });
    const [prefill, decode] = [engine('p0', 'prefill'), engine('d0', 'decode')];
    const before = {
      ...{ turns: 1, historyIds: [1, 2], messages: [user('a')], text: 'before', specialTokens: true },
      tokenIds: [1, 2, 3, 4],
      ...{ prefill, decode, localHitTokens: 16, decodeHitTokens: 32, heldTokens: 20 },
    };
    const params = {
      ...{ do_remote_prefill: false, do_remote_decode: true, remote_num_tokens: 60 },
      ...{
        remote_block_ids: [
          [1, 2, 3, 4],
          [5, 6, 7, 8],
        ],
        remote_token_ids: [1, 2, 3],
      },
    };
    const kv = { params, holder: decode, atMs: 5 };
    const after = { turns: 2, historyIds: [1, 2, 3, 4], messages: null, text: null, cacheSalt: 's', kv };
    return { forgotten, before, params, kv, after, prefill, decode };
  }

  it('restores the conversation, and offers what was offered to it', async () => {
    const { forgotten, before, params, kv, after } = world();
    const one = conversation({ ...after, before });
    expect(await takeBack('c', one, null, REWIND)).toBeNull();
    expect(one).toMatchObject({
      turns: 1,
      historyIds: [1, 2],
      messages: [user('a')],
      text: 'before',
      specialTokens: true,
      before: null,
    });
    // 20 tokens take two blocks; the holder's token ids stay complete.
    expect(one.kv).toEqual({
      ...kv,
      params: {
        ...params,
        remote_num_tokens: 20,
        remote_block_ids: [
          [1, 2],
          [5, 6],
        ],
      },
    });
    expect(forgotten).toEqual([
      ['d0', [1, 2, 3, 4], 's', 32],
      ['p0', [1, 2, 3, 4], 's', 16],
    ]);
    await expect(takeBack('c', one, null, REWIND)).rejects.toThrow('no turn to take back');
    await expect(takeBack('c', null, null, REWIND)).rejects.toThrow('no turn to take back');
  });

  it.each([
    // The margin is 15 s of a TTL of 240 s.
    ["the holder's own expiry minus the margin", { remote_blocks_expiry_time: 240 }, 225_000],
    ['450 s if the holder names no expiry', {}, 450_000],
  ])('is offered no longer than before: %s', async (_, expiry, untilMs) => {
    const { before, params, after, decode } = world();
    let nowMs = 0;
    const cache = new ConversationCache({ now: () => nowMs, sleep: async () => {} });
    const kv = { params: { ...params, ...expiry }, holder: decode, atMs: 0 };
    const takenBack = async (atMs: number) => {
      const one = conversation({ ...after, kv, before });
      nowMs = atMs;
      await takeBack('c', one, null, REWIND);
      return one;
    };
    const early = await takenBack(untilMs - 1);
    expect(cache.takeHeld(early)!.params).toMatchObject({ ...expiry, remote_num_tokens: 20 });
    const late = await takenBack(untilMs - 1);
    nowMs = untilMs;
    expect(cache.takeHeld(late)).toBeNull();
  });

  it('gives up the hold if none was offered to it, and lets P keep more tokens', async () => {
    const { forgotten, before, kv, after } = world();
    const one = conversation({ ...after, before: { ...before, heldTokens: 0 } });
    expect(await takeBack('c', one, 48, REWIND)).toBe(kv);
    expect(one.kv).toBeNull();
    expect(forgotten.at(-1)).toEqual(['p0', [1, 2, 3, 4], 's', 48]);
  });

  it('on one engine is forgotten there once, and gets no hold if there was none', async () => {
    const { forgotten, before, after, decode } = world();
    const one = conversation({ ...after, kv: null, before: { ...before, prefill: decode } });
    expect(await takeBack('c', one, null, REWIND)).toBeNull();
    expect(one.kv).toBeNull();
    expect(forgotten).toEqual([['d0', [1, 2, 3, 4], 's', 32]]);
  });

  it('with a streamed offer has no block ids to truncate', async () => {
    const { before, kv, after } = world();
    const open = { ...kv, params: { ...kv.params, remote_block_ids: null } };
    const one = conversation({ ...after, kv: open, before });
    await takeBack('c', one, null, REWIND);
    expect(one.kv!.params.remote_block_ids).toBeNull();
  });
});
