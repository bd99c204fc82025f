/**
 * What is too large to be a good request is refused before anyone spends time on it: bodies by their bytes, lists by
 * their length, texts by the tokens that they have at least.
 */
import type { MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { HttpError } from './http-error.ts';
import { unlessGone } from './over.ts';
import type { PortService } from './service.ts';

/** Bytes, whatever the model: reading and checking so many costs some tens of milliseconds. */
export const MOST_BODY_BYTES = 4 * 2 ** 20;
/** Bytes beside the prompt. */
const ROOM_FOR_FIELDS = 256 * 1024;
/** Bytes of a UTF-16 code unit, written as \uXXXX. */
const LONGEST_SPELLING = 6;
/** Bytes: a message with its braces and role, or an id in the prompt and in kv_transfer_params. */
const AROUND_A_TOKEN = 64;
/** The chat template renders each, and costs about 6 µs for it. */
export const MOST_MESSAGES = 1024;
/** Text parts of one message. */
export const MOST_PARTS = 256;
const MOST_PARAMS = 64;

type Sized = Pick<PortService, 'model' | 'text'>;

/** Bytes of a body that a prompt of the whole context fits into, however it is written. */
export function mostBodyBytes({ model, text }: Sized): number {
  const aToken = LONGEST_SPELLING * text.mostCharacters + AROUND_A_TOKEN;
  return Math.min(MOST_BODY_BYTES, ROOM_FOR_FIELDS + model.maxModelLen * aToken);
}

/** Throws HttpError 413. */
export function limitBody(mostBytes: number): MiddlewareHandler {
  const tooLarge = (): never => {
    throw new HttpError(413, `the body has more than ${mostBytes} bytes, which no request here needs`);
  };
  const limitStream = bodyLimit({ maxSize: mostBytes, onError: tooLarge });
  // A body that tells its length is not touched: as a web stream it would be read far more slowly.
  return async (c, next) => {
    const length = c.req.header('Content-Length');
    if (length === undefined || c.req.header('Transfer-Encoding') !== undefined)
      return unlessGone(limitStream(c, next));
    if (Number(length) > mostBytes) tooLarge();
    await next();
  };
}

/** Looks at a body that no schema has seen yet: every element that a schema looks at costs time. Throws HttpError 400. */
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

/** What a text turned out to have. Throws HttpError 400. */
export function checkTokens(name: string, tokenIds: readonly number[], { model }: Sized): readonly number[] {
  if (tokenIds.length > model.maxModelLen) tooLong(name, `${tokenIds.length} tokens`, model.maxModelLen);
  return tokenIds;
}

function checkMessages(messages: unknown, sized: Sized): void {
  if (!Array.isArray(messages)) return;
  if (messages.length > MOST_MESSAGES)
    throw new HttpError(
      400,
      `messages has ${messages.length} messages: at most ${MOST_MESSAGES}`,
      'messages',
    );
  let characters = 0;
  for (const [i, message] of messages.entries()) {
    const { content } = fieldsOf(message);
    if (typeof content === 'string') characters += content.length;
    if (!Array.isArray(content)) continue;
    const name = `messages.${i}.content`;
    if (content.length > MOST_PARTS)
      throw new HttpError(400, `${name} has ${content.length} parts: at most ${MOST_PARTS}`, name);
    for (const part of content) {
      const { text } = fieldsOf(part);
      if (typeof text === 'string') characters += text.length;
    }
  }
  checkCharacters('messages', characters, sized);
}

/** Tokens and blocks of a prompt, by their place in it. */
function checkParams(params: unknown, sized: Sized): void {
  const fields = fieldsOf(params);
  const keys = Object.keys(fields);
  if (keys.length > MOST_PARAMS) {
    const message = `kv_transfer_params has ${keys.length} fields: at most ${MOST_PARAMS}`;
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

/** The list, if it is one. */
function checkList(name: string, list: unknown, { model }: Sized): readonly unknown[] {
  if (!Array.isArray(list)) return [];
  if (list.length > model.maxModelLen) tooLong(name, `a list of ${list.length}`, model.maxModelLen);
  return list;
}

function tooLong(name: string, found: string, maxModelLen: number): never {
  const message = `${name} has ${found}: the model's context is ${maxModelLen} tokens; shorten it`;
  throw new HttpError(400, message, name);
}
