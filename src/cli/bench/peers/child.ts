/** A contender's process: prepares once, then multiplies on request. */
import { ConfigError, messageOf } from '../../../errors.ts';
import { systemClock } from '../../../platform/clock.ts';
import { useAdapter } from '../../../platform/node.ts';
import { numbers, probes } from '../kernels/workbench.ts';
import { type ContenderName, contenders, type Multiply, type Shape } from './contenders.ts';

export type ToContender =
  | { kind: 'prepare'; contender: ContenderName; adapter: string; shape: Shape }
  | { kind: 'round' };

export type FromContender =
  | { kind: 'ready' }
  /** `sample`: some of the product, for the comparison with float64. */
  | { kind: 'done'; ms: number; sample: number[] }
  | { kind: 'missing'; why: string }
  | { kind: 'failed'; why: string };

const send = (message: FromContender) => process.send!(message);
let multiply: Multiply;
let a: Float32Array;
let b: Float32Array;

process.on('message', async (message: ToContender) => {
  try {
    if (message.kind === 'prepare') {
      const { m, k, n } = message.shape;
      await useAdapter(message.adapter);
      [a, b] = [numbers(m * k, 1), numbers(k * n, 2)];
      multiply = await contenders[message.contender](message.shape);
      // Compiles, and checks that it works.
      await multiply(a, b);
      send({ kind: 'ready' });
    } else {
      const start = systemClock.now();
      const product = await multiply(a, b);
      const ms = systemClock.now() - start;
      send({ kind: 'done', ms, sample: probes(product.length).map((at) => product[at]!) });
    }
  } catch (error) {
    const why = messageOf(error);
    send({ kind: error instanceof ConfigError ? 'missing' : 'failed', why });
  }
});
