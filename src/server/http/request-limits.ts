/**
 * Rejects oversized requests before time is spent on them: bodies by their bytes, lists by their length, texts by the fewest
 * tokens they can have.
 */
import type { MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import type { PortService } from '../service.ts';
import { HttpError } from './http-error.ts';
import { unlessGone } from './request-signal.ts';

/** Bytes, for any model. Reading and checking this many takes some tens of milliseconds. */
export const MOST_BODY_BYTES = 4 * 2 ** 20;
/** Bytes for everything except the prompt. */
const ROOM_FOR_FIELDS = 256 * 1024;
/** Most bytes of one UTF-16 code unit: \uXXXX. */
const LONGEST_SPELLING = 6;
/** Bytes per token around its text: a message's braces and role, or its id in the prompt and in kv_transfer_params. */
const AROUND_A_TOKEN = 64;
/** Most messages. The chat template takes about 6 µs for each. */
export const MOST_MESSAGES = 1024;
/** Most text parts of one message. */
export const MOST_PARTS = 256;
const MOST_PARAMS = 64;

type Sized = Pick<PortService, 'model' | 'text'>;

/** Bytes that suffice for a body whose prompt fills the context, in any JSON spelling. */
export function mostBodyBytes({ model, text }: Sized): number {
  const aToken = LONGEST_SPELLING * text.mostCharacters + AROUND_A_TOKEN;
  return Math.min(MOST_BODY_BYTES, ROOM_FOR_FIELDS + model.maxModelLen * aToken);
}

/** Middleware that throws HttpError 413 for longer bodies. */
export function limitBody(mostBytes: number): MiddlewareHandler {
  const tooLarge = (): never => {
    throw new HttpError(
      413,
      `the body has more than ${mostBytes} bytes: no request here needs that many; shorten it`,
    );
  };
  const limitStream = bodyLimit({ maxSize: mostBytes, onError: tooLarge });
  // A body with a Content-Length is not wrapped: as a web stream it would be read far more slowly.
  return async (c, next) => {
    const length = c.req.header('Content-Length');
    if (length === undefined || c.req.header('Transfer-Encoding') !== undefined)
      return unlessGone(limitStream(c, next));
    if (Number(length) > mostBytes) tooLarge();
    await next();
  };
}

/** Checks a body before its schema does, because a schema takes time for every element. Throws HttpError 400. */
export function checkSizes(body: unknown, sized: Sized): void {
  const fields = fieldsOf(body);
  for (const name of ['prompt', 'token_ids', 'tokens']) {
    const value = fields[name];
    checkText(name, value, sized);
    for (const inner of checkList(name, value, sized)) {
      checkText(name, inner, sized);
      checkList(name, inner, sized);
    }
  }
  checkMessages(fields.messages, sized);
  const inside = fieldsOf(fieldsOf(fields.sampling_params).extra_args);
  for (const params of [fields.kv_transfer_params, inside.kv_transfer_params]) checkParams(params, sized);
}

const fieldsOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};

/** Checks that a text's tokens fit into the context, and returns them. Throws HttpError 400. */
export function checkTokens(name: string, tokenIds: readonly number[], { model }: Sized): readonly number[] {
  if (tokenIds.length > model.maxModelLen) tooLong(name, `${tokenIds.length} tokens`, model.maxModelLen);
  return tokenIds;
}

function checkMessages(messages: unknown, sized: Sized): void {
  if (!Array.isArray(messages)) return;
  if (messages.length > MOST_MESSAGES)
    throw new HttpError(
      400,
      `messages has ${messages.length} messages: wanted at most ${MOST_MESSAGES}`,
      'messages',
    );
  let characters = 0;
  for (const [i, message] of messages.entries()) {
    const { content } = fieldsOf(message);
    if (typeof content === 'string') characters += content.length;
    if (!Array.isArray(content)) continue;
    const name = `messages.${i}.content`;
    if (content.length > MOST_PARTS)
      throw new HttpError(400, `${name} has ${content.length} parts: wanted at most ${MOST_PARTS}`, name);
    for (const part of content) {
      const { text } = fieldsOf(part);
      if (typeof text === 'string') characters += text.length;
    }
  }
  checkCharacters('messages', characters, sized);
}

/** Lists in kv_transfer_params (token ids, block ids) cannot be longer than the context. */
function checkParams(params: unknown, sized: Sized): void {
  const fields = fieldsOf(params);
  const keys = Object.keys(fields);
  if (keys.length > MOST_PARAMS) {
    const message = `kv_transfer_params has ${keys.length} fields: wanted at most ${MOST_PARAMS}`;
    throw new HttpError(400, message, 'kv_transfer_params');
  }
  for (const key of keys) {
    const name = `kv_transfer_params.${key}`;
    for (const inner of checkList(name, fields[key], sized)) checkList(name, inner, sized);
  }
}

function checkText(name: string, text: unknown, sized: Sized): void {
  if (typeof text === 'string') checkCharacters(name, text.length, sized);
}

function checkCharacters(name: string, characters: number, { model, text }: Sized): void {
  const fewest = Math.ceil(characters / text.mostCharacters);
  if (fewest > model.maxModelLen) tooLong(name, `at least ${fewest} tokens`, model.maxModelLen);
}

/** Checks and returns the list; [] if the value is not a list. */
function checkList(name: string, list: unknown, { model }: Sized): readonly unknown[] {
  if (!Array.isArray(list)) return [];
  if (list.length > model.maxModelLen) tooLong(name, `a list of ${list.length}`, model.maxModelLen);
  return list;
}

function tooLong(name: string, found: string, maxModelLen: number): never {
  const message = `${name} has ${found}: the model's context is ${maxModelLen} tokens; shorten it`;
  throw new HttpError(400, message, name);
}
