/** POST /tokenize and /detokenize, in vLLM's formats. They use no engine, and do not count among its requests. */
import type { Context, Hono } from 'hono';
import { askedByDetokenize, askedByTokenize } from '../generation/bodies.ts';
import { checkModel } from '../generation/generation.ts';
import { checkIds } from '../generation/prompt-check.ts';
import { Admission } from '../http/admission.ts';
import { asHttpError } from '../http/http-error.ts';
import { bodyOf, jsonResponse } from '../http/json.ts';
import { checkSizes, checkTokens } from '../http/request-limits.ts';
import { requestSignal } from '../http/request-signal.ts';
import type { PortService } from '../service.ts';

/** At most `most` requests at once; further ones get 503. */
export function mountTextRoutes(app: Hono, service: PortService, most: number): void {
  const admission = new Admission(0, most);
  const route = (path: string, answer: (body: unknown, over: AbortSignal) => Promise<object>) =>
    app.post(path, async (c: Context) => {
      const body = await bodyOf(c);
      checkSizes(body, service);
      const leave = admission.enter(new AbortController());
      try {
        return jsonResponse(await answer(body, requestSignal(c)));
      } finally {
        leave();
      }
    });
  route('/tokenize', (body, over) => tokenized(service, askedByTokenize(body), over));
  route('/detokenize', async (body) => {
    const { model, tokens } = askedByDetokenize(body);
    checkModel(model || null, service);
    checkIds(tokens, 'tokens', service.model.vocabSize);
    return { prompt: service.text.decode(tokens) };
  });
}

async function tokenized(service: PortService, asked: ReturnType<typeof askedByTokenize>, over: AbortSignal) {
  const { text, model } = service;
  checkModel(asked.model || null, service);
  const field = asked.messages ? 'messages' : 'prompt';
  const encoding = asked.messages
    ? text.encodeMessages(asked.messages, asked.end, over)
    : text.encode(asked.prompt!, over);
  const encoded = await encoding.catch((error: unknown) => {
    throw asHttpError(error, field);
  });
  const tokens = asked.addSpecialTokens ? text.withSpecialTokens(encoded) : encoded;
  checkTokens(field, tokens, service);
  const token_strs = asked.return_token_strs ? tokens.map((token) => text.token(token)) : null;
  return { count: tokens.length, max_model_len: model.maxModelLen, tokens, token_strs };
}
