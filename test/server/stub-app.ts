/** The app of a port on a stub service, and requests for it. */
import { createApp } from '../../src/server/app.ts';
import { asService, type StubService } from './stub.ts';

type Options = Parameters<typeof createApp>[1];

export function stubApp(stub: StubService, options: Partial<Options> = {}) {
  return createApp(asService(stub), { version: '1', created: 1, ...options });
}

export const post = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  headers: { 'Content-Type': 'application/json', ...headers },
  body: typeof body === 'string' ? body : JSON.stringify(body),
});

export const CHAT = '/v1/chat/completions';
export const hello = { model: 'nano', messages: [{ role: 'user', content: 'hello' }], max_tokens: 3 };
