/** The service worker that adds the isolation headers, outside a browser. */
import { readFileSync } from 'node:fs';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';

const code = readFileSync(new URL('../../../demo/public/isolation.js', import.meta.url), 'utf8');

/** The worker's answer to a navigation that the server answers with `response`. */
async function answered(response: Response): Promise<Response> {
  const heard = new Map<string, (event: object) => void>();
  const self = {
    addEventListener: (kind: string, hear: (event: object) => void) => heard.set(kind, hear),
    location: { origin: 'https://host' },
  };
  runInNewContext(code, { self, URL, Headers, Response, fetch: async () => response });
  return new Promise((respondWith) => {
    const request = { url: 'https://host/kvferry', mode: 'navigate', cache: 'default' };
    heard.get('fetch')!({ request, respondWith });
  });
}

it('adds the isolation headers to a page', async () => {
  const page = await answered(new Response('page', { headers: { 'Content-Type': 'text/html' } }));
  expect(Object.fromEntries(page.headers)).toMatchObject({
    'content-type': 'text/html',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-embedder-policy': 'require-corp',
  });
  expect(await page.text()).toBe('page');
});

it('leaves a redirect to the browser', async () => {
  const redirect = { type: 'opaqueredirect', status: 0, statusText: '', headers: new Headers(), body: null };
  expect(await answered(redirect as Response)).toBe(redirect);
});
