/** POST, GET and DELETE /faults: inject, list and clear faults. On the admin port, with --fault-endpoint only. */
import type { Hono } from 'hono';
import { z } from 'zod';
import {
  ENGINE_FAULTS,
  type FaultBoard,
  FINEST_RATE,
  PORT_FAULTS,
  type PortFault,
  SENT_FAULTS,
} from '../../faults/board.ts';
import { checked } from '../generation/fields.ts';
import { HttpError } from '../http/http-error.ts';
import { bodyOf, jsonResponse } from '../http/json.ts';

/** Milliseconds. */
const USUAL_DELAY = 200;
const LONGEST_DELAY = 600_000;

const FAULT_NAMES = [...ENGINE_FAULTS, ...SENT_FAULTS, ...PORT_FAULTS] as const;
const names = FAULT_NAMES.join(', ');

const faultSchema = z.strictObject(
  {
    engine: z.string({ error: 'the name of an engine, such as "decode-0", or "router"' }),
    fault: z.enum(FAULT_NAMES, { error: `one of ${names}` }),
    rate: z
      .number({ error: 'percent' })
      .min(FINEST_RATE, { error: `at least ${FINEST_RATE} percent` })
      .max(100, { error: 'at most 100 percent' })
      .nullish(),
    delay_ms: z
      .number({ error: 'milliseconds' })
      .min(0, { error: 'milliseconds, 0 or more' })
      .max(LONGEST_DELAY, { error: `at most ${LONGEST_DELAY} milliseconds` })
      .default(USUAL_DELAY),
  },
  { error: strictly('engine, fault, rate and delay_ms') },
);

const requestSchema = z.strictObject(
  {
    seed: z.number({ error: 'a whole number' }).int({ error: 'a whole number' }).nullish(),
    faults: z
      .array(faultSchema, { error: 'a list such as [{"engine": "decode-0", "fault": "slow"}]' })
      .max(64, { error: 'at most 64' }),
  },
  { error: strictly('seed and faults') },
);

function strictly(fields: string) {
  return ({ code, keys = [] }: { code?: string; keys?: readonly string[] }): string =>
    code === 'unrecognized_keys'
      ? `only ${fields} (${keys.join(', ')} is unknown)`
      : `an object with ${fields}`;
}

/** Percent, when no rate is given. A kill without a rate happens once, immediately. */
const EVERYTHING = 100;

/** `engines`: names of the engines now in the fleet. */
export function mountFaults(app: Hono, board: FaultBoard, engines: () => readonly string[]): void {
  const shown = () =>
    jsonResponse({
      seed: board.seed,
      faults: board.injected.map(({ delayMs, ...injected }) => ({ ...injected, delay_ms: delayMs })),
    });
  app.get('/faults', shown);
  app.post('/faults', async (c) => {
    const { seed = null, faults } = checked(requestSchema, await bodyOf(c));
    for (const [i, { engine, fault }] of faults.entries()) checkPlace(i, engine, fault, engines());
    const added = faults.map(({ engine, fault, rate, delay_ms: delayMs }) => ({
      engine,
      fault,
      rate: rate ?? (fault === 'kill' ? null : EVERYTHING),
      delayMs,
    }));
    await board.add(added, seed);
    return shown();
  });
  app.delete('/faults', () => {
    board.clear();
    return shown();
  });
}

/** Checks that the fault can be injected at this engine or the router. Throws HttpError 400. */
function checkPlace(index: number, engine: string, fault: string, engines: readonly string[]): void {
  const ofPorts = (PORT_FAULTS as readonly string[]).includes(fault);
  const places = ofPorts ? [...engines, 'router'] : engines;
  if (places.includes(engine)) return;
  const message = `faults.${index}.engine is '${engine}': wanted one of ${places.join(', ')} for ${fault}`;
  throw new HttpError(400, message, `faults.${index}.engine`);
}

/** The error that llm-d-inference-sim returns; the message adds that the fault was injected. */
export function portFailure(fault: PortFault): HttpError {
  const asked = `(${fault}, injected by POST /faults)`;
  switch (fault) {
    case 'rate_limit':
      return new HttpError(429, `Rate limit reached ${asked}`, null, { 'Retry-After': '1' });
    case 'invalid_api_key':
      return new HttpError(401, `Incorrect API key provided ${asked}`);
    case 'context_length':
      return new HttpError(400, `The prompt is longer than the model's context ${asked}`, 'messages');
    case 'server_error':
      return new HttpError(503, `The server is overloaded or not ready yet ${asked}`);
    case 'invalid_request':
      return new HttpError(400, `Invalid request: a required field is missing ${asked}`);
    case 'model_not_found':
      return new HttpError(404, `The model does not exist ${asked}`, 'model');
  }
}
