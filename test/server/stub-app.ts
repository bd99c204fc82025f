/** The app of a port on a stub service, and requests for it. */
import { type AppOptions, createApp } from '../../src/server/app.ts';
import { Admission } from '../../src/server/http/admission.ts';
import type { RequestObserver } from '../../src/server/observer.ts';
import type { PortService } from '../../src/server/service.ts';
import { asService, type StubService } from './stub.ts';

const nothing = () => {};

export const noObserver: RequestObserver = { requested: nothing, token: nothing, finished: nothing };

/** The options that matter to no test; `given` replaces some. */
export function appOptions(service: PortService, given: Partial<AppOptions> = {}): AppOptions {
  const { maxQueue = 256 } = given;
  return {
    ...{ version: '1', created: 1, maxQueue, defaults: {}, streamingKvParams: true },
    ...{ apiKey: null, adminKey: null, corsOrigins: [], hosts: [] },
    admission: new Admission(service.maxNumSeqs, maxQueue),
    log: { access: nothing, ended: nothing, note: nothing, error: nothing },
    observer: noObserver,
    failure: () => null,
    ...{ answered: nothing, mount: nothing },
    ...given,
  };
}

export function stubApp(stub: StubService, options: Partial<AppOptions> = {}) {
  const service = asService(stub);
  return createApp(service, appOptions(service, options));
}

export const post = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  headers: { 'Content-Type': 'application/json', ...headers },
  body: typeof body === 'string' ? body : JSON.stringify(body),
});

export const CHAT = '/v1/chat/completions';
export const hello = { model: 'nano', messages: [{ role: 'user', content: 'hello' }], max_tokens: 3 };
