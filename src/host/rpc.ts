/** Comlink with support for this project's error classes. Import it instead of comlink, at both ends. */
import * as Comlink from 'comlink';
import { fromWire, toWire, type WireError } from '../errors.ts';

interface Thrown {
  value: unknown;
}

const stock = Comlink.transferHandlers.get('throw');
if (!stock)
  throw new Error(
    'comlink has no handler for thrown errors: wanted the version in package-lock.json, run npm ci',
  );

Comlink.transferHandlers.set('throw', {
  canHandle: stock.canHandle,
  serialize: (thrown: unknown) => [toWire((thrown as Thrown).value), []],
  deserialize: (wire: unknown): never => {
    throw fromWire(wire as WireError);
  },
} as Comlink.TransferHandler<unknown, unknown>);

export { expose, proxy, transfer, wrap } from 'comlink';
