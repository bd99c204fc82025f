/** Settings of a simulation: cost model, arrivals and link sharing. The rest are those of a real fleet. */
import { anyNumber, flag, oneOf, positive, text, time } from './fields.ts';

/** Settings of every simulating command. */
export const modelling = {
  costs: text('dynamo-mocker, llm-d-inference-sim, blis-transfer, zero or a file of costs')
    .default('dynamo-mocker')
    .meta({
      description:
        'Cost model, which says how long steps and copies take: a file from kvferry calibrate --costs-out or your own, or a published model: dynamo-mocker, llm-d-inference-sim, blis-transfer. zero: everything takes no time, to study decisions alone.',
      value: 'NAME|FILE',
    }),
  seeds: positive('seeds').default(1).meta({
    description: 'Simulations of each variant, each with the arrivals of the next seed.',
    value: 'N',
  }),
  linkSharing: oneOf(['fcfs', 'fair']).default('fcfs').meta({
    description:
      'How concurrent READs share a link. fcfs: first come, first served, as in these engines. fair: all at once.',
    value: 'fcfs|fair',
  }),
  kvBytesPerToken: positive('bytes').nullable().default(null).meta({
    description: "KV size per token, all layers together. Default: the model's.",
    value: 'BYTES',
  }),
  jobs: positive('jobs').nullable().default(null).meta({
    description:
      'Simulations to run in parallel, each in its own thread; results do not change. One simulation is one arm with one seed, or one candidate fleet. Default: 1; for kvferry plan the number of processors.',
    value: 'N',
  }),
};

export const simulation = {
  arrivalRate: anyNumber('conversations per second, above 0', { above: 0 }).nullable().default(null).meta({
    description:
      'Conversations that begin per second, with exponential gaps, regardless of who is waiting (open loop). Default: --num-clients clients send one request after another, as in bench.',
    value: 'R',
  }),
  arrivals: positive('conversations').nullable().default(null).meta({
    description:
      'With --arrival-rate: total conversations. That many are generated, or those of a list repeat. Default: each once.',
    value: 'N',
  }),
  startUp: time('a time such as 240s, or 0', { min: 0 }).nullable().default(null).meta({
    description:
      "Start-up time of an engine that joins or replaces another. Default: the value in --costs, or BLIS's 240 s if it has none.",
    value: 'TIME',
  }),
  against: text('a file').nullable().default(null).meta({
    description:
      'A report of the same workload from kvferry bench (of engines, or of a server with --endpoint) or replay, to compare the simulation with.',
    value: 'REPORT',
  }),
  validate: flag().default(false).meta({
    description:
      'Also serve the workload on real engines here, --rounds times (5), with costs measured on them in between, and show the error of the simulation.',
    value: null,
  }),
};

/** Whether --costs names a file rather than a built-in model. */
export const isCostsFile = (costs: string): boolean => /[./\\]/.test(costs);
