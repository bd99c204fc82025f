/** A server's error messages, made safe to show: no control characters, secrets or excess length. */
import { ErrorReply } from '@redis/client';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { serverMessage, usable } from '../../src/platform/node/redis-error.ts';

const url = 'redis://kv:p%40ss@cache:6379/2';

describe("a server's error message", () => {
  it.each([
    ['OOM command not allowed', 'OOM command not allowed'],
    ['ERR \u001b[31mred\u001b[0m\r\n  next\u0000line\u202e ', 'ERR [31mred [0m next line'],
    ["ERR unknown command 'AUTH', with args beginning with: 'kv' 'p@", "ERR unknown command 'AUTH'"],
    ['ERR no such user p@ss, nor p%40ss', 'ERR no such user …, nor …'],
    ['', ''],
  ])('%j is shown as %j', (said, line) => {
    expect(serverMessage(said, url)).toBe(line);
  });

  it('is cut to 160 characters without splitting one', () => {
    expect(serverMessage('é😀'.repeat(1000), 'redis://cache')).toBe(`${'é😀'.repeat(80)}…`);
  });

  it('is cleaned when the connection is refused and when it fails', () => {
    const refused = usable(new ErrorReply('WRONGPASS p@ss\nis wrong'), url, 'redis://cache');
    expect(refused).toBeInstanceOf(ConfigError);
    expect(refused.message).toBe(
      "the store's server redis://cache refuses the connection: WRONGPASS … is wrong",
    );
    expect(usable(new ErrorReply('LOADING p@ss\u0007'), url, 'redis://cache').message).toBe('LOADING …');
  });
});
