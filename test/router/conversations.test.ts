import { describe, expect, test } from 'vitest';
import {
  type Conversation,
  ConversationCache,
  ROUTER_TTL_MS,
  type TurnStart,
} from '../../src/router/conversations.ts';
import type { GenerateRequest, Message } from '../../src/router/turn-types.ts';
import { FakeEngine } from './fake-engine.ts';

const before = {} as TurnStart;

function world() {
  let now = 0;
  const holder = new FakeEngine('decode-0', 'decode');
  const { released } = holder;
  const cache = new ConversationCache({ now: () => now, sleep: async () => {} });
  const user = (content: string): Message => ({ role: 'user', content });
  let holds = 0;
  const turn = (request: GenerateRequest, text: string): Conversation => {
    const conversation = cache.open(request);
    const params = { do_remote_decode: true, do_remote_prefill: false, remote_request_id: `hold-${++holds}` };
    const kv = { params, holder, atMs: now };
    cache.finish(conversation, request, { historyIds: [1, 2, 3, holds], text, kv, before });
    return conversation;
  };
  const pass = (ms: number): void => {
    now += ms;
  };
  return { cache, released, user, turn, pass };
}

const held = (kv: { params: { remote_request_id?: string | null | undefined } } | null) =>
  kv?.params.remote_request_id ?? null;

describe('what D holds for a conversation', () => {
  test('is used once, by the turn that goes on', () => {
    const { cache, turn, user } = world();
    turn({ conversationId: 'a', messages: [user('1')] }, 'one');
    const next = {
      conversationId: 'a',
      messages: [user('1'), { role: 'assistant', content: 'one' }, user('2')],
    };
    const conversation = cache.open(next);
    expect(held(cache.takeHeld(conversation))).toBe('hold-1');
    expect(cache.takeHeld(conversation)).toBeNull();
  });

  test('is offered for a rewritten history too: P pulls as far as the tokens are the same', () => {
    const { cache, turn, user } = world();
    turn({ conversationId: 'a', messages: [user('1')] }, 'one');
    const edited = [user('1'), { role: 'assistant', content: 'uno' }, user('2')];
    const conversation = cache.open({ conversationId: 'a', messages: edited });
    expect(held(cache.takeHeld(conversation))).toBe('hold-1');
  });

  const goesOn = { conversationId: 'a', promptText: 'xyz' };
  const ends: [string, (world: World) => unknown][] = [
    [
      'too old',
      ({ cache, pass }) => {
        pass(ROUTER_TTL_MS);
        return cache.takeHeld(cache.open(goesOn));
      },
    ],
    ['replaced', ({ turn }) => void turn(goesOn, 'two')],
    ['of a conversation that ended', ({ cache }) => cache.forget('a')],
  ];

  test.each(ends)('is released when it is %s', async (_, act) => {
    const made = world();
    made.turn({ conversationId: 'a', promptText: 'x' }, 'y');
    expect(act(made) ?? null).toBeNull();
    await Promise.resolve();
    expect(made.released).toEqual(['hold-1']);
  });
});

type World = ReturnType<typeof world>;

describe('a conversation without an id', () => {
  const ask = (request: Omit<GenerateRequest, 'conversationId'>): GenerateRequest => ({
    ...request,
    conversationId: null,
    findConversation: true,
  });

  test('is found by the longest history that the prompt begins with', () => {
    const { cache, turn, user } = world();
    const first = [user('1')];
    turn(ask({ messages: first }), 'one');
    const second = [...first, { role: 'assistant', content: 'one' }, user('2')];
    const parent = turn(ask({ messages: second }), 'two');
    turn(ask({ messages: [user('other')] }), 'x');
    const request = ask({ messages: [...second, { role: 'assistant', content: 'two' }, user('3')] });
    const found = cache.open(request);
    expect(found.follows).toBe(parent);
    expect(found.turns).toBe(2);
    expect(held(cache.takeHeld(found))).toBe('hold-2');
    expect(cache.open(ask({ messages: [user('1'), user('2')] })).follows).toBeNull();
  });

  test('by its text, and by its tokens with or without the last', () => {
    const { cache, turn } = world();
    const byText = turn(ask({ promptText: 'ab' }), 'cd');
    expect(cache.open(ask({ promptText: 'abcde' })).follows).toBe(byText);
    expect(cache.open(ask({ promptText: 'abcd' })).follows).toBeNull();
    expect(cache.open(ask({ promptTokenIds: [1, 2, 3, 9] })).follows).toBe(byText);
    expect(cache.open(ask({ promptTokenIds: [1, 2, 4, 1] })).follows).toBeNull();
  });

  test('never across salts, nor when it was not asked for', () => {
    const { cache, turn } = world();
    turn(ask({ promptText: 'ab', cacheSalt: 's' }), 'cd');
    expect(cache.open(ask({ promptText: 'abcde' })).follows).toBeNull();
    expect(cache.open(ask({ promptText: 'abcde', cacheSalt: 't' })).follows).toBeNull();
    expect(cache.open(ask({ promptText: 'abcde', cacheSalt: 's' })).follows).not.toBeNull();
    expect(cache.open({ conversationId: null, promptText: 'abcde', cacheSalt: 's' }).follows).toBeNull();
  });

  test('the id of another salt is another conversation, and the old one is released', async () => {
    const { cache, turn, released } = world();
    turn({ conversationId: 'a', promptText: 'x', cacheSalt: 's' }, 'y');
    expect(cache.open({ conversationId: 'a', promptText: 'xyz' })).toMatchObject({ turns: 0, kv: null });
    expect(released).toEqual([]);
    turn({ conversationId: 'a', promptText: 'xyz' }, 'z');
    await Promise.resolve();
    expect(released).toEqual(['hold-1']);
  });
});

test('beyond so many, the one that was not used for the longest is forgotten, and what it holds released', async () => {
  const { cache, turn, released } = world();
  for (let i = 0; i < 1025; i++) turn({ conversationId: `c${i}`, promptText: 'x' }, 'y');
  await Promise.resolve();
  expect(released).toEqual(['hold-1']);
  expect(cache.find({ conversationId: 'c0' })).toBeNull();
  expect(cache.find({ conversationId: 'c1' })).not.toBeNull();
});

test('requests that never end well are not remembered; two first turns of one id leave one conversation', async () => {
  const { cache, turn, released } = world();
  turn({ conversationId: 'good', promptText: 'x' }, 'y');
  for (let i = 0; i < 2000; i++) cache.open({ conversationId: `bad${i}`, promptText: 'x' });
  expect(cache.find({ conversationId: 'good' })).not.toBeNull();
  const beside = cache.open({ conversationId: 'twice', promptText: 'a' });
  turn({ conversationId: 'twice', promptText: 'a' }, 'b');
  cache.finish(beside, { conversationId: 'twice' }, { historyIds: [1], text: 'c', kv: null, before });
  await Promise.resolve();
  expect(released).toEqual(['hold-2']);
});
