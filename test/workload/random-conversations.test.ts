import { describe, expect, test } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { parseConversations } from '../../src/workload/file.ts';
import { conversationLength, makeConversations } from '../../src/workload/random-conversations.ts';

const read = (value: unknown) => parseConversations(JSON.stringify(value), 'talk.json');
const user = (content: string) => ({ role: 'user', content });
const assistant = (content: string) => ({ role: 'assistant', content });

describe('a conversation from a file', () => {
  test("has a turn for each user message, and drops the assistant's messages", () => {
    const messages = [
      { role: 'system', content: 'Be brief.' },
      user('Hi'),
      assistant('Hello!'),
      user('A'),
      user('B'),
    ];
    const expected = [[{ role: 'system', content: 'Be brief.' }, user('Hi')], [user('A')], [user('B')]];
    expect(read(messages)).toEqual([{ kind: 'text', id: '1', turns: expected }]);
    expect(read({ messages })).toEqual([{ kind: 'text', id: '1', turns: expected }]);
    expect(read({ id: 'x', messages })[0]?.id).toBe('x');
  });

  test('may be one of several, as lists or as objects', () => {
    expect(
      read([{ messages: [user('a')] }, { id: 'two', messages: [user('b')] }]).map(({ id }) => id),
    ).toEqual(['1', 'two']);
    expect(read([[user('a')], [user('b')]]).map(({ turns }) => turns)).toEqual([
      [[user('a')]],
      [[user('b')]],
    ]);
  });

  test('may have content in parts, which are joined', () => {
    const content = [
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ];
    expect(read([{ role: 'user', content }])[0]?.turns).toEqual([[user('a\nb')]]);
  });

  test.each([
    [[user('hi'), assistant('hello')], /talk.json ends with the assistant/],
    [[assistant('hello'), user('hi')], /message 1 is the assistant's, with nothing to answer/],
    [[user('hi'), assistant('a'), assistant('b'), user('x')], /message 3 is the assistant's/],
    [[user('hi'), assistant('a'), { role: 'system', content: 'x' }], /ends with a system message/],
    [[], /no messages/],
    [{ messages: [] }, /no messages/],
    [{ turns: [] }, /no list of messages/],
    ['text', /no list of messages/],
    [[{ role: 'user', content: 7 }], /message 1 has no text/],
    [
      [{ messages: [user('a')] }, { messages: [user('b'), assistant('c')] }],
      /conversation 2 ends with the assistant/,
    ],
    [
      [
        { id: 1, messages: [user('a')] },
        { id: '1', messages: [user('b')] },
      ],
      /two conversations with the id '1'/,
    ],
  ])('is refused: %j', (value, message) => {
    expect(() => read(value)).toThrow(ConfigError);
    expect(() => read(value)).toThrow(message);
  });

  test('is refused if it is not JSON', () => {
    expect(() => parseConversations('{', 'talk.json')).toThrow(/talk.json is not JSON/);
  });
});

describe('generated conversations', () => {
  const sizes = { conversations: 3, turns: 4, systemTokens: 10, userTokens: 5, outputTokens: 6 };

  test('have the given sizes and share their system prompt', () => {
    const made = makeConversations(sizes, 512, 1);
    expect(made.map(({ id }) => id)).toEqual(['random-1', 'random-2', 'random-3']);
    for (const { turns, outputTokens } of made) {
      expect(turns.map((ids) => ids.length)).toEqual([15, 5, 5, 5]);
      expect(outputTokens).toBe(6);
      expect(turns[0]?.slice(0, 10)).toEqual(made[0]?.turns[0]?.slice(0, 10));
      for (const id of turns.flat()) expect(id >= 8 && id < 512).toBe(true);
    }
    expect(made[0]?.turns[1]).not.toEqual(made[1]?.turns[1]);
    expect(conversationLength(sizes)).toBe(10 + 4 * 11);
  });

  test('depend on the seed alone', () => {
    expect(makeConversations(sizes, 512, 1)).toEqual(makeConversations(sizes, 512, 1));
    expect(makeConversations(sizes, 512, 1)).not.toEqual(makeConversations(sizes, 512, 2));
  });

  test('are refused for a vocabulary of 8 tokens', () => {
    expect(() => makeConversations(sizes, 8, 1)).toThrow(ConfigError);
  });
});
