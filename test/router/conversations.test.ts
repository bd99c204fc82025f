import { describe, expect, test } from 'vitest';
import { EngineDeadError } from '../../src/errors.ts';
import type { Conversation, TurnStart } from '../../src/router/conversation.ts';
import { ConversationCache } from '../../src/router/conversations.ts';
import type { GenerateRequest, Message } from '../../src/router/turn-types.ts';
import { FakeEngine } from './fake-engine.ts';

const before = {} as TurnStart;

function world(ttlSeconds: number | null = 480) {
  let now = 0;
  const holder = new FakeEngine('decode-0', 'decode');
  const { released } = holder;
  const cache = new ConversationCache({ now: () => now, sleep: async () => {} });
  const user = (content: string): Message => ({ role: 'user', content });
  let holds = 0;
  const turn = (request: GenerateRequest, text: string): Conversation => {
    const conversation = cache.open(request);
    const remote_blocks_expiry_time = ttlSeconds === null ? null : now / 1000 + ttlSeconds;
    const remote_request_id = `hold-${++holds}`;
    const params = {
      do_remote_decode: true,
      do_remote_prefill: false,
      remote_request_id,
      remote_blocks_expiry_time,
    };
    const kv = { params, holder, atMs: now };
    cache.finish(conversation, request, { historyIds: [1, 2, 3, holds], text, kv, before });
    return conversation;
  };
  const pass = (ms: number): void => {
    now += ms;
  };
  return { cache, holder, released, user, turn, pass };
}

const held = (kv: { params: { remote_request_id?: string | null | undefined } } | null) =>
  kv?.params.remote_request_id ?? null;

describe('a hold for a conversation', () => {
  test('is used once, by the next turn', () => {
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

  test('is offered for an edited history too, since P pulls only as far as the tokens match', () => {
    const { cache, turn, user } = world();
    turn({ conversationId: 'a', messages: [user('1')] }, 'one');
    const edited = [user('1'), { role: 'assistant', content: 'uno' }, user('2')];
    const conversation = cache.open({ conversationId: 'a', messages: edited });
    expect(held(cache.takeHeld(conversation))).toBe('hold-1');
  });

  const continuesHistory = { conversationId: 'a', promptText: 'xyz' };
  const ends: [string, (world: World) => unknown][] = [
    [
      'too old',
      ({ cache, pass }) => {
        pass(450_000);
        return cache.takeHeld(cache.open(continuesHistory));
      },
    ],
    [
      'on an engine that ended',
      ({ cache, holder }) => {
        holder.ended = new EngineDeadError('gone');
        return cache.takeHeld(cache.open(continuesHistory));
      },
    ],
    ['replaced', ({ turn }) => void turn(continuesHistory, 'two')],
    ['of a conversation that ended', ({ cache }) => cache.forget('a')],
  ];

  test.each(ends)('is released when it is %s', async (_, act) => {
    const made = world();
    made.turn({ conversationId: 'a', promptText: 'x' }, 'y');
    expect(act(made) ?? null).toBeNull();
    await Promise.resolve();
    expect(made.released).toEqual(['hold-1']);
  });

  test.each([
    [480, 450],
    [60, 55],
    [null, 450],
  ])('with a TTL of %s s is offered for less than %i s', (ttl, seconds) => {
    for (const late of [false, true]) {
      const { cache, turn, pass } = world(ttl);
      turn({ conversationId: 'a', promptText: 'x' }, 'y');
      pass(1000 * seconds - (late ? 0 : 1));
      expect(held(cache.takeHeld(cache.open(continuesHistory)))).toBe(late ? null : 'hold-1');
    }
  });

  test('of a turn that ends after its conversation was forgotten is released and not remembered', async () => {
    for (const known of [false, true]) {
      const { cache, turn, released } = world();
      if (known) turn(continuesHistory, 'one');
      const conversation = cache.open(continuesHistory);
      cache.forget('a');
      const params = { do_remote_decode: true, do_remote_prefill: false, remote_request_id: 'late' };
      const kv = { params, holder: new FakeEngine('d', 'decode'), atMs: 0 };
      cache.finish(conversation, continuesHistory, { historyIds: [1], text: 'z', kv, before });
      expect(cache.known('a')).toBeNull();
      expect(kv.holder.released).toEqual(['late']);
      expect(released).toEqual(known ? ['hold-1'] : []);
    }
  });
});

test('conversations with a hold are remembered until the hold is too old', () => {
  const { cache, turn, pass, released } = world();
  for (let i = 0; i < 3000; i++) turn({ conversationId: `c${i}`, promptText: 'x' }, 'y');
  expect(cache.known('c0')).not.toBeNull();
  expect(released).toEqual([]);
  pass(460_000);
  turn({ conversationId: 'last', promptText: 'x' }, 'y');
  expect(cache.known('c0')).toBeNull();
  expect(cache.known('c1976')).toBeNull();
  expect(cache.known('c1977')).not.toBeNull();
  expect(released).toHaveLength(3001 - 1024);
});

test('beyond 16,384 conversations the least recently used is forgotten and its hold released', () => {
  const { cache, turn, released } = world();
  for (let i = 0; i <= 16 * 1024; i++) turn({ conversationId: `c${i}`, promptText: 'x' }, 'y');
  expect(cache.known('c0')).toBeNull();
  expect(cache.known('c1')).not.toBeNull();
  expect(released).toEqual(['hold-1']);
});

test('fewer conversations are remembered if they are long, even if they have holds', () => {
  const { cache, turn, released } = world();
  const historyIds = new Array<number>(4 * 2 ** 20).fill(1);
  const long = (conversationId: string) => {
    const request = { conversationId, promptText: 'x' };
    cache.finish(cache.open(request), request, { historyIds, text: 'y', kv: null, before });
  };
  turn({ conversationId: 'short', promptText: 'x' }, 'y');
  long('a');
  long('a');
  expect(cache.known('short')).not.toBeNull();
  long('b');
  expect([cache.known('short'), released]).toEqual([null, ['hold-1']]);
  expect(cache.known('a')).not.toBeNull();
  long('c');
  expect(cache.known('a')).toBeNull();
  cache.clear();
  long('d');
  long('e');
  expect(cache.known('d')).not.toBeNull();
});

type World = ReturnType<typeof world>;

test('a turn that continues a forgotten conversation leaves a new one with the same id alone', () => {
  const { cache, turn } = world();
  const text = { conversationId: null, findConversation: true, promptText: 'abcd' };
  const { id } = turn({ conversationId: null, promptText: 'ab' }, 'c');
  const following = cache.open(text);
  expect(following.follows?.id).toBe(id);
  cache.forget(id);
  const other = turn({ conversationId: id, promptText: 'other' }, 'x');
  cache.finish(following, text, { historyIds: [1], text: 'e', kv: null, before });
  expect(cache.known(id)).toBe(other);
});

test.each([
  ['before', [0, 1]],
  ['after', [1, 0]],
])(
  'a named conversation is left alone by a request without an id that ends %s its next turn',
  async (_, order) => {
    const { cache, turn, released } = world();
    const named = turn({ conversationId: 'a', promptText: 'ab' }, 'c');
    const next = [
      { conversationId: null, findConversation: true, promptText: 'abcd' },
      { conversationId: 'a', promptText: 'abcd' },
    ];
    const opened = next.map((request) => cache.open(request));
    expect(opened[0]!.historyIds).toBe(named.historyIds);
    expect(opened.map((conversation) => held(cache.takeHeld(conversation)))).toEqual([null, 'hold-1']);
    for (const i of order) {
      const params = { do_remote_decode: true, do_remote_prefill: false, remote_request_id: `next-${i}` };
      const kv = { params, holder: new FakeEngine('d', 'decode'), atMs: 0 };
      cache.finish(opened[i]!, next[i]!, { historyIds: [1, 2, 3, 4, 5], text: 'e', kv, before });
    }
    expect(held(cache.known('a')!.kv)).toBe('next-1');
    expect(held(cache.known(opened[0]!.id)!.kv)).toBe('next-0');
    expect(released).toEqual([]);
  },
);

describe('opening a conversation', () => {
  const ask = (request: Omit<GenerateRequest, 'conversationId'>): GenerateRequest => ({
    ...request,
    conversationId: null,
    findConversation: true,
  });

  test('without an id finds the longest history that the prompt begins with', () => {
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

  test('without an id finds it by its text, or by its tokens with or without the last one', () => {
    const { cache, turn } = world();
    const byText = turn(ask({ promptText: 'ab' }), 'cd');
    expect(cache.open(ask({ promptText: 'abcde' })).follows).toBe(byText);
    expect(cache.open(ask({ promptText: 'abcd' })).follows).toBeNull();
    expect(cache.open(ask({ promptTokenIds: [1, 2, 3, 9] })).follows).toBe(byText);
    expect(cache.open(ask({ promptTokenIds: [1, 2, 4, 1] })).follows).toBeNull();
  });

  test('tells whether special tokens were added to its text', () => {
    const { cache, turn } = world();
    for (const addSpecialTokens of [true, false]) {
      turn({ conversationId: 'a', promptText: 'ab', addSpecialTokens }, 'cd');
      expect(cache.open({ conversationId: 'a', promptText: 'abcde' }).specialTokens).toBe(addSpecialTokens);
    }
  });

  test('without an id finds none of another salt, and none without findConversation', () => {
    const { cache, turn } = world();
    turn(ask({ promptText: 'ab', cacheSalt: 's' }), 'cd');
    expect(cache.open(ask({ promptText: 'abcde' })).follows).toBeNull();
    expect(cache.open(ask({ promptText: 'abcde', cacheSalt: 't' })).follows).toBeNull();
    expect(cache.open(ask({ promptText: 'abcde', cacheSalt: 's' })).follows).not.toBeNull();
    expect(cache.open({ conversationId: null, promptText: 'abcde', cacheSalt: 's' }).follows).toBeNull();
  });

  test('with a known id but another salt starts a new one, whose first turn releases the old hold', async () => {
    const { cache, turn, released } = world();
    turn({ conversationId: 'a', promptText: 'x', cacheSalt: 's' }, 'y');
    expect(cache.open({ conversationId: 'a', promptText: 'xyz' })).toMatchObject({ turns: 0, kv: null });
    expect(released).toEqual([]);
    turn({ conversationId: 'a', promptText: 'xyz' }, 'z');
    await Promise.resolve();
    expect(released).toEqual(['hold-1']);
  });
});

test('requests that never finish are not remembered, and two first turns of one id leave one conversation', async () => {
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

describe('the messages remembered for the next turn', () => {
  const find = ({ cache, user }: ReturnType<typeof world>, messages: Message[]) =>
    cache.find({ conversationId: null, findConversation: true, messages: [...messages, user('?')] });

  test('contain the whole of an answer that continued a message', () => {
    const here = world();
    const begun = [here.user('1'), { role: 'assistant', content: 'on' }];
    here.turn({ conversationId: null, messages: begun, promptEnd: 'continue' }, 'e two');
    expect(find(here, [here.user('1'), { role: 'assistant', content: 'one two' }])).not.toBeNull();
    expect(find(here, [...begun, { role: 'assistant', content: 'e two' }])).toBeNull();
  });

  test('are none if the answer is not a message of the template', () => {
    const here = world();
    const asked = [here.user('1')];
    here.turn({ conversationId: null, messages: asked, promptEnd: 'plain' }, 'one');
    here.turn({ conversationId: null, messages: asked, promptEnd: 'continue' }, 'one');
    expect(find(here, [...asked, { role: 'assistant', content: 'one' }])).toBeNull();
    expect(find(here, [here.user('1one')])).toBeNull();
  });
});
