/** POST /tokenize and /detokenize, in vLLM's formats. They use no engine, and do not count among its requests. */
import type { Context, Hono } from 'hono';
import { parseDetokenize, parseTokenize } from '../generation/bodies.ts';
import { checkModel } from '../generation/generation.ts';
import { checkIds } from '../generation/prompt-check.ts';
import { Admission } from '../http/admission.ts';
import { asHttpError } from '../http/http-error.ts';
import { bodyOf, jsonResponse } from '../http/json.ts';
import { checkSizes, checkTokens } from '../http/request-limits.ts';
import { requestSignal } from '../http/request-signal.ts';
import type { PortService } from '../service.ts';

/** As many requests at once as the port takes for generation; further ones get 503. */
export function mountTextRoutes(app: Hono, service: PortService, maxQueue: number): void {
  const admission = new Admission(service.maxNumSeqs, maxQueue);
  const route = (path: string, answer: (body: unknown, requestEnded: AbortSignal) => Promise<object>) =>
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
  route('/tokenize', (body, requestEnded) => tokenized(service, parseTokenize(body), requestEnded));
  route('/detokenize', async (body) => {
    const { model, tokens } = parseDetokenize(body);
    checkModel(model || null, service);
    checkIds(tokens, 'tokens', service.model.vocabSize);
    return { prompt: service.text.decode(tokens) };
  });
}

async function tokenized(
  service: PortService,
  parsed: ReturnType<typeof parseTokenize>,
  requestEnded: AbortSignal,
) {
  const { text, model } = service;
  checkModel(parsed.model || null, service);
  const field = parsed.messages ? 'messages' : 'prompt';
  const encoding = parsed.messages
    ? text.encodeMessages(parsed.messages, parsed.end, requestEnded)
    : text.encode(parsed.prompt!, requestEnded);
  const encoded = await encoding.catch((error: unknown) => {
    throw asHttpError(error, field);
  });
  const tokens = parsed.addSpecialTokens ? text.withSpecialTokens(encoded) : encoded;
  checkTokens(field, tokens, service);
  const token_strs = parsed.return_token_strs ? tokens.map((token) => text.token(token)) : null;
  return { count: tokens.length, max_model_len: model.maxModelLen, tokens, token_strs };
}
