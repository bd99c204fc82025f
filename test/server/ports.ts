/** An engine's port without threads or GPU: a real engine core behind the real routes. */
import type { Hono } from 'hono';
import type { EngineCore } from '../../src/engine/engine-core.ts';
import { EngineDeadError, RequestError } from '../../src/errors.ts';
import { createApp } from '../../src/server/app.ts';
import type {
  EngineService,
  RouterService,
  ServedEngine,
  ServedModel,
  TextTools,
} from '../../src/server/service.ts';
import { appOptions } from './stub-app.ts';

export const model: ServedModel = { names: ['nano'], maxModelLen: 1024, vocabSize: 512, eosTokenIds: [0] };

/** Each character is a token. */
export const text: TextTools = {
  mostCharacters: 1,
  withSpecialTokens: (tokenIds) => tokenIds,
  encode: async (written) => [...written].map((character) => character.charCodeAt(0)),
  decode: (tokenIds) => String.fromCharCode(...tokenIds),
  token: (tokenId) => String.fromCharCode(tokenId),
  bytes: (tokenId) => [...Buffer.from(String.fromCharCode(tokenId))],
  encodeMessages: async (messages, end, over) => {
    if (messages.at(-1)!.role === 'assistant' && end === 'generation_prompt')
      throw new RequestError('nothing to answer');
    return text.encode(messages.map((message) => `${message.role}:${message.content};`).join(''), over);
  },
};

const common = {
  model,
  text,
  maxNumSeqs: 8,
  // biome-ignore lint/correctness/useYield: never served here
  async *generate() {
    throw new Error('not here');
  },
  unhealthy: () => null,
};

export function engineService(core: () => EngineCore | null): EngineService {
  const alive = () => {
    const here = core();
    if (!here) throw new EngineDeadError('prefill-0 ended');
    return here;
  };
  const engine: ServedEngine = {
    engineId: 'prefill-0',
    role: 'prefill',
    combined: false,
    get ended() {
      return core() ? null : new EngineDeadError('prefill-0 ended');
    },
    inspection: {
      lookup: async (tokenIds, salt) => alive().inspect.lookup(tokenIds, salt),
      stats: async () => {
        const memory = { gpu: 0, shared: 0 };
        const more = { engineId: 'prefill-0', firstUseCompilations: 0, holdUse: null, transfers: null };
        return { ...alive().inspect.stats(), ...more, memory };
      },
    },
  };
  return {
    ...common,
    kind: 'engine',
    name: 'prefill-0',
    engine: () => engine,
    resetPrefixCache: async () => true,
    noteHost: () => {},
    refused: () => {},
  };
}

export function routerService(cluster: Partial<RouterService['cluster']>): RouterService {
  return { ...common, kind: 'router', name: 'router', cluster: cluster as RouterService['cluster'] };
}

export function appOf(service: EngineService | RouterService, mount: (app: Hono) => void): Hono {
  return createApp(service, appOptions(service, { created: 0, mount }));
}

export function post(app: Hono, path: string, body: unknown): Promise<Response> {
  const headers = { 'Content-Type': 'application/json' };
  const init = { method: 'POST', headers, body: typeof body === 'string' ? body : JSON.stringify(body) };
  return Promise.resolve(app.request(path, init));
}
