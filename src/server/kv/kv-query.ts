/**
 * POST /kv/query: how much of a prompt each engine has cached, without computing anything (vLLM's RFC 32733: cache query
 * request). An engine's port answers for its engine, the router's port for all engines.
 */
import type { Hono } from 'hono';
import { z } from 'zod';
import { ANSWER_MS, callWithTimeout } from '../../fleet/call-with-timeout.ts';
import { servingRole } from '../../fleet/serving-role.ts';
import type { CacheAnswers, EngineLookup } from '../../fleet/types.ts';
import { systemClock } from '../../platform/clock.ts';
import { messageList, plainMessage } from '../generation/bodies.ts';
import { checked, flag, requestFields, specialTokensOf, tokenIdList } from '../generation/fields.ts';
import { asHttpError, HttpError, noAnswer } from '../http/http-error.ts';
import { bodyOf, jsonResponse } from '../http/json.ts';
import { checkSizes, checkTokens } from '../http/request-limits.ts';
import { requestSignal } from '../http/request-signal.ts';
import { sourceOf } from '../router-service.ts';
import type { EngineService, PortService, Prompt, RouterService } from '../service.ts';
import { promptTokens } from '../text/text-tools.ts';

const querySchema = z.object(
  {
    messages: messageList.optional(),
    prompt: z.union([z.string(), tokenIdList], { error: 'a string, or a list of token ids' }).optional(),
    token_ids: tokenIdList.optional(),
    add_special_tokens: flag,
    /** Router port only. Without it, the conversation is found by its history, as for a completion. */
    conversation_id: requestFields.conversation_id,
    session_id: requestFields.session_id,
    cache_salt: requestFields.cache_salt,
  },
  { error: 'a JSON object' },
);

interface Query {
  prompt: Prompt;
  addSpecialTokens: boolean;
  promptField: string;
  conversationId: string | null;
  cacheSalt: string | null;
}

export function mountKvQuery(app: Hono, service: PortService): void {
  app.post('/kv/query', async (c) => {
    const body = await bodyOf(c);
    checkSizes(body, service);
    const query = parseQuery(body);
    const requestEnded = requestSignal(c);
    const asking =
      service.kind === 'engine'
        ? queryEngine(service, query, requestEnded)
        : queryRouter(service, query, requestEnded);
    const { promptTokens, engines, unanswered } = await asking.catch((error: unknown) => {
      throw asHttpError(error, query.promptField);
    });
    return jsonResponse({
      object: 'kv.query',
      prompt_tokens: promptTokens,
      engines: engines.map(shown),
      unanswered,
    });
  });
}

function parseQuery(body: unknown): Query {
  const fields = checked(querySchema, body);
  const forms = (['messages', 'prompt', 'token_ids'] as const).filter((key) => fields[key] !== undefined);
  if (forms.length !== 1) {
    const found = forms.length === 0 ? 'none is given' : `${forms.join(' and ')} are given`;
    const problem = `${found}: wanted exactly one of messages, prompt and token_ids`;
    throw new HttpError(400, problem, forms[0] ?? 'messages');
  }
  return {
    prompt: promptOf(fields),
    addSpecialTokens: specialTokensOf(fields.add_special_tokens, fields.messages ? 'messages' : 'text'),
    promptField: forms[0]!,
    conversationId: fields.conversation_id || fields.session_id || null,
    cacheSalt: fields.cache_salt ?? null,
  };
}

function promptOf({ messages, prompt, token_ids: ids }: z.output<typeof querySchema>): Prompt {
  if (messages) return { kind: 'messages', messages: messages.map(plainMessage), end: 'generation_prompt' };
  if (typeof prompt === 'string') return { kind: 'text', text: prompt };
  return { kind: 'tokens', tokenIds: ids ?? prompt! };
}

async function queryEngine(
  service: EngineService,
  { promptField, cacheSalt, ...query }: Query,
  requestEnded: AbortSignal,
): Promise<CacheAnswers> {
  const tokenIds = checkTokens(promptField, await promptTokens(service.text, query, requestEnded), service);
  const engine = service.engine();
  const { engineId, role, combined } = engine;
  const lookup = await callWithTimeout(
    engine,
    () => engine.inspection.lookup(tokenIds, cacheSalt),
    systemClock,
  );
  if (!lookup) throw noAnswer(engineId);
  return {
    promptTokens: tokenIds.length,
    engines: [{ engineId, role, combined, ...lookup }],
    unanswered: [],
  };
}

async function queryRouter(
  service: RouterService,
  { prompt, addSpecialTokens, promptField, conversationId, cacheSalt }: Query,
  requestEnded: AbortSignal,
) {
  const encode = async (text: string) =>
    checkTokens(promptField, await service.text.encode(text, requestEnded), service);
  const promptSource = { conversationId, cacheSalt, findConversation: true, addSpecialTokens, encode };
  return service.cluster.queryCache({ ...promptSource, ...sourceOf(prompt) }, ANSWER_MS);
}

function shown(lookup: EngineLookup) {
  return {
    engine_id: lookup.engineId,
    role: servingRole(lookup),
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
