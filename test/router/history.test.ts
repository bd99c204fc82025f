/** Which conversation a prompt continues, and what happens to a conversation while its hold is moved. */
import { describe, expect, it, test } from 'vitest';
import type { Conversation, TurnStart } from '../../src/router/conversation.ts';
import { ConversationCache } from '../../src/router/conversations.ts';
import { continuesHistory } from '../../src/router/history.ts';
import type { HeldForNextTurn } from '../../src/router/next-turn-hold.ts';
import type { GenerateRequest, Message } from '../../src/router/turn-types.ts';
import { FakeEngine } from './fake-engine.ts';

const before = {} as TurnStart;
const user = (content: string): Message => ({ role: 'user', content });
const assistant = (content: string): Message => ({ role: 'assistant', content });

function world() {
  const cache = new ConversationCache({ now: () => 0, sleep: async () => {} });
  const holder = new FakeEngine('d0', 'decode');
  const kvOf = (id: string): HeldForNextTurn => {
    return {
      params: { do_remote_prefill: false, do_remote_decode: true, remote_request_id: id },
      holder,
      atMs: 0,
    };
  };
  const turn = (
    request: Partial<GenerateRequest>,
    historyIds: readonly number[] | null,
    kv: HeldForNextTurn | null = null,
  ): Conversation => {
    const asked = { conversationId: null, ...request };
    const conversation = cache.open(asked);
    cache.finish(conversation, asked, { historyIds, text: '!', kv, before });
    cache.close(conversation);
    return conversation;
  };
  return { cache, holder, kvOf, turn };
}

describe('continuesHistory()', () => {
  const known = (changes: Partial<Conversation>) =>
    ({ messages: null, text: null, historyIds: [], ...changes }) as Conversation;

  it.each<[string, boolean, Partial<Conversation>, Parameters<typeof continuesHistory>[1]]>([
    ['with all ids of the history', true, { historyIds: [1, 2, 3] }, { promptTokenIds: [1, 2, 3, 4] }],
    ['with all ids but the last', true, { historyIds: [1, 2, 3] }, { promptTokenIds: [1, 2] }],
    ['with another last id', true, { historyIds: [1, 2, 3] }, { promptTokenIds: [1, 2, 9] }],
    ['with too few ids', false, { historyIds: [1, 2, 3] }, { promptTokenIds: [1] }],
    ['with other ids', false, { historyIds: [1, 2, 3] }, { promptTokenIds: [1, 9, 3, 4] }],
    ['of ids after a history of one id', false, { historyIds: [1] }, { promptTokenIds: [1, 2] }],
    ['of ids after an empty history', false, { historyIds: [] }, { promptTokenIds: [1, 2] }],
    ['without content', false, { historyIds: [1, 2] }, {}],
    ['of text that begins with the history', true, { text: 'ab' }, { promptText: 'abc' }],
    ['of the same text', false, { text: 'ab' }, { promptText: 'ab' }],
    ['of another text', false, { text: 'ab' }, { promptText: 'xbc' }],
    ['of text after a history of ids', false, { historyIds: [1, 2, 3] }, { promptText: 'abc' }],
    [
      'of messages that begin with the history',
      true,
      { messages: [user('a')] },
      { messages: [user('a'), user('b')] },
    ],
    ['of the same messages', false, { messages: [user('a')] }, { messages: [user('a')] }],
    ['of fewer messages', false, { messages: [user('a'), user('b')] }, { messages: [user('a')] }],
    [
      'of messages with another role',
      false,
      { messages: [user('a')] },
      { messages: [assistant('a'), user('b')] },
    ],
    [
      'of messages with other content',
      false,
      { messages: [user('a')] },
      { messages: [user('x'), user('b')] },
    ],
    ['of messages after a history of text', false, { text: 'a' }, { messages: [user('a'), user('b')] }],
  ])('for a prompt %s is %s', (_, expected, conversation, request) => {
    expect(continuesHistory(known(conversation), request)).toBe(expected);
  });
});

describe('conversations without an id', () => {
  const find = { findConversation: true } as const;

  test('are continued by the longest history, and the last used of equal ones', () => {
    const { cache, turn } = world();
    const found = () =>
      cache.open({ conversationId: null, ...find, promptTokenIds: [1, 2, 3, 4, 5, 6] }).follows;
    const long = turn({ promptTokenIds: [1] }, [1, 2, 3, 4]);
    turn({ promptTokenIds: [1] }, [1, 2, 3]);
    expect(found()).toBe(long);
    const last = turn({ promptTokenIds: [1] }, [1, 2, 3, 4]);
    expect(found()).toBe(last);
    turn({ promptTokenIds: [1], cacheSalt: 's' }, [1, 2, 3, 4, 5]);
    expect(found()).toBe(last);
  });

  test('get ids of their own, and are replaced by the conversation that continues them', () => {
    const { cache, turn } = world();
    const first = turn({ promptTokenIds: [1] }, [1, 2, 3]);
    const other = turn({ promptTokenIds: [7] }, [7, 8, 9]);
    expect(first.id).not.toBe(other.id);
    const second = turn({ ...find, promptTokenIds: [1, 2, 3, 4] }, [1, 2, 3, 4, 5]);
    expect([cache.known(first.id), cache.known(second.id), cache.known(other.id)]).toEqual([
      null,
      second,
      other,
    ]);
    expect([second.turns, second.follows]).toEqual([2, null]);
  });

  test('keep no history without token ids, and no messages or text that were not given', () => {
    const { cache, turn } = world();
    const lost = turn({ conversationId: 'a', promptText: 'ab', messages: [user('a')] }, null);
    expect(lost).toMatchObject({ historyIds: [], messages: null, text: null, turns: 1 });
    expect(cache.known('a')).toBe(lost);
    const byIds = turn({ conversationId: 'b', promptTokenIds: [1] }, [1, 2]);
    expect(byIds).toMatchObject({ messages: null, text: null });
    expect(turn({ conversationId: 'c', messages: [] }, [1, 2]).messages).toBeNull();
  });
});

describe('the conversation cache', () => {
  test('keeps the new hold of a move, and lets the next turn wait for it', async () => {
    const { cache, turn, kvOf } = world();
    const one = turn({ conversationId: 'a' }, [1, 2], kvOf('old'));
    const taken = cache.move(one, async ({ params }) => kvOf(`${params.remote_request_id}, new`));
    expect(one.kv).toBeNull();
    expect(cache.moving(one)).not.toBeNull();
    expect(await taken).toBe(true);
    expect(one.kv?.params.remote_request_id).toBe('old, new');
    expect(cache.moving(one)).toBeNull();
  });

  test('moves nothing if there is no hold, and drops a hold that no engine takes', async () => {
    const { cache, turn, kvOf } = world();
    const none = turn({ conversationId: 'a' }, [1, 2]);
    expect(await cache.move(none, () => Promise.reject(new Error('never asked')))).toBe(false);
    const one = turn({ conversationId: 'b' }, [1, 2], kvOf('old'));
    expect(await cache.move(one, async () => null)).toBe(false);
    expect(one.kv).toBeNull();
  });

  test('releases a moved hold if its conversation was forgotten or has a newer hold', async () => {
    const { cache, turn, kvOf, holder } = world();
    const forgotten = turn({ conversationId: 'a' }, [1, 2], kvOf('a'));
    const moving = cache.move(forgotten, async () => kvOf('a, new'));
    cache.forget('a');
    await moving;
    expect([holder.released, forgotten.kv]).toEqual([['a, new'], null]);
    const newer = turn({ conversationId: 'b' }, [1, 2], kvOf('b'));
    const late = cache.move(newer, async () => kvOf('b, new'));
    newer.kv = kvOf('newer');
    await late;
    expect(holder.released).toEqual(['a, new', 'b, new']);
    expect(newer.kv.params.remote_request_id).toBe('newer');
  });

  test('forgets only the conversation with the given id', () => {
    const { cache, holder, turn, kvOf } = world();
    const under = cache.open({ conversationId: 'under way' });
    const other = turn({ conversationId: 'other' }, [1, 2], kvOf('o'));
    cache.forget('somebody');
    expect([under.ended, holder.released]).toEqual([false, []]);
    cache.forget('under way');
    expect([under.ended, other.ended]).toEqual([true, false]);
    expect(cache.known('other')).toBe(other);
    expect(cache.heldAt('d0')).toEqual([other]);
    cache.clear();
    expect([cache.known('other'), holder.released]).toEqual([null, []]);
  });
});
