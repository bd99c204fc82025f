// For hosts that cannot set headers (GitHub Pages): adds the isolation headers to every response. Caches nothing.
self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));

self.addEventListener('fetch', (event) => {
  const { request } = event;
  // Other origins are not changed: they must allow this page to read them (CORS) anyway.
  if (new URL(request.url).origin !== self.location.origin) return;
  // The browser's own cache lookups must not be answered here.
  if (request.cache === 'only-if-cached' && request.mode !== 'same-origin') return;
  event.respondWith(isolated(request));
});

async function isolated(request) {
  const response = await fetch(request);
  // Nothing of these can be read; a redirect is followed by the browser.
  if (['opaque', 'opaqueredirect', 'error'].includes(response.type)) return response;
  const headers = new Headers(response.headers);
  headers.set('Cross-Origin-Opener-Policy', 'same-origin');
  headers.set('Cross-Origin-Embedder-Policy', 'require-corp');
  headers.set('Cross-Origin-Resource-Policy', 'same-origin');
  const { status, statusText } = response;
  // The body of a redirect or an empty response must stay empty.
  const body = [101, 204, 205, 304].includes(status) ? null : response.body;
  return new Response(body, { status, statusText, headers });
}
