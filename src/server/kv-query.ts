/**
 * POST /kv/query: how much of a prompt each engine has, without computing anything: what RFC 32733 calls a cache query
 * request. An engine's port answers for its engine, the router's for all.
 */
import type { Hono } from 'hono';
import { z } from 'zod';
import type { EngineLookup } from '../cluster/types.ts';
import { HttpError } from './http-error.ts';
import { jsonResponse } from './json.ts';
import type { EngineService, PortService, RouterService } from './service.ts';

const tokenIds = z.array(z.number().int().nonnegative()).min(1);

const querySchema = z.object({
  messages: z
    .array(z.object({ role: z.string(), content: z.string() }))
    .min(1)
    .optional(),
  prompt: z.union([z.string().min(1), tokenIds]).optional(),
  token_ids: tokenIds.optional(),
  /** As for a chat completion. */
  add_generation_prompt: z.boolean().default(true),
  /** The router's port only: its history is looked up as the ids that the engines saw. */
  conversation_id: z.string().nullish(),
  cache_salt: z.string().nullish(),
});

type Query = z.infer<typeof querySchema>;

export function mountKvQuery(app: Hono, service: PortService): void {
  app.post('/kv/query', async (c) => {
    const query = parseQuery(await c.req.json().catch(() => undefined));
    const { promptTokens, engines } =
      service.kind === 'engine' ? await askEngine(service, query) : await askRouter(service, query);
    return jsonResponse({ object: 'kv.query', prompt_tokens: promptTokens, engines: engines.map(shown) });
  });
}

function parseQuery(body: unknown): Query {
  if (body === undefined) throw new HttpError(400, 'the body is no JSON');
  const result = querySchema.safeParse(body);
  if (!result.success) {
    const { path, message } = result.error.issues[0]!;
    const field = path.join('.');
    throw new HttpError(400, `${field || 'the body'}: ${message}`, field || null);
  }
  const given = (['messages', 'prompt', 'token_ids'] as const).filter(
    (key) => result.data[key] !== undefined,
  );
  if (given.length === 1) return result.data;
  const found = given.length === 0 ? 'none is given' : `${given.join(' and ')} are given`;
  throw new HttpError(
    400,
    `one of messages, prompt and token_ids is wanted, and ${found}`,
    given[0] ?? 'messages',
  );
}

async function askEngine(service: EngineService, query: Query) {
  const promptTokenIds = toTokens(service, query);
  const engine = service.engine();
  const lookup = await engine.call((api) => api.lookup(promptTokenIds, query.cache_salt ?? null));
  const engines = [{ engineId: engine.engineId, role: engine.role, ...lookup }];
  return { promptTokens: promptTokenIds.length, engines };
}

async function askRouter(service: RouterService, query: Query) {
  const { conversation_id: conversationId = null, cache_salt: cacheSalt = null, messages } = query;
  const known = messages !== undefined && conversationId !== null && query.add_generation_prompt;
  const prompt = known ? { messages } : { promptTokenIds: toTokens(service, query) };
  return service.cluster.queryCache({ ...prompt, conversationId, cacheSalt });
}

function toTokens({ text }: PortService, query: Query): readonly number[] {
  if (query.token_ids) return query.token_ids;
  if (query.messages) return text.encodeMessages(query.messages, query.add_generation_prompt);
  return typeof query.prompt === 'string' ? text.encode(query.prompt) : query.prompt!;
}

function shown(lookup: EngineLookup) {
  return {
    engine_id: lookup.engineId,
    role: lookup.role,
    block_size: lookup.blockSize,
    cached_tokens: lookup.cachedTokens,
    hit_tokens: lookup.hitTokens,
    block_ids: lookup.blockIds,
    block_hashes: lookup.blockHashes,
    held: lookup.held.map((held) => ({
      request_id: held.requestId,
      direction: held.direction,
      num_tokens: held.numTokens,
      block_ids: held.blockIds,
      /** Unix seconds. */
      expires_at: held.deadlineMs / 1000,
    })),
  };
}
