/** Errors that cross threads. */
import { expect, it } from 'vitest';
import { deathReason, EngineDeadError, engineEnded, fromWire, RequestError, toWire } from '../src/errors.ts';

const travelled = (error: unknown) => fromWire(structuredClone(toWire(error)));

it('an error keeps its class, message, cause and reason across threads', () => {
  const cause = new RequestError('too long');
  const error = travelled(new EngineDeadError('engine p-0 ended: it is hot', { cause, reason: 'it is hot' }));
  expect(error).toBeInstanceOf(EngineDeadError);
  expect(error.message).toBe('engine p-0 ended: it is hot');
  expect(error.cause).toBeInstanceOf(RequestError);
  expect(deathReason(error)).toBe('it is hot');
});

it('deathReason gives why an engine ended without its name, or the message of another error', () => {
  expect(engineEnded('p-0', 'killed').message).toBe('engine p-0 ended: killed');
  expect(deathReason(travelled(engineEnded('p-0', 'p-0 ended: twice')))).toBe('p-0 ended: twice');
  expect(deathReason(travelled(new EngineDeadError('nobody is there')))).toBe('nobody is there');
  expect(deathReason(travelled(new RequestError('too long')))).toBe('too long');
});
