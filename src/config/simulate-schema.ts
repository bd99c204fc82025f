/** The settings of a simulation: whose times, who asks when, and how links are shared. The rest are a real fleet's. */
import { anyNumber, flag, oneOf, positive, text, time } from './fields.ts';

/** Of whatever is simulated. */
export const modelling = {
  costs: text('dynamo-mocker, llm-d-inference-sim, blis-transfer, zero or a file of costs')
    .default('dynamo-mocker')
    .meta({
      description:
        "Whose times: a file that kvferry calibrate --costs-out wrote or that you wrote, or a published model's name: dynamo-mocker, llm-d-inference-sim, blis-transfer; zero: none, for decisions alone.",
      value: 'NAME|FILE',
    }),
  seeds: positive('seeds').default(1).meta({
    description: 'How often each is simulated, with arrivals of the next seed each time.',
    value: 'N',
  }),
  linkSharing: oneOf(['fcfs', 'fair']).default('fcfs').meta({
    description:
      'How READs over one link at a time share it: first come, first served, as engines here do; or all at once.',
    value: 'fcfs|fair',
  }),
  kvBytesPerToken: positive('bytes').nullable().default(null).meta({
    description: "Bytes that a token's KV takes. Left out: the model's.",
    value: 'BYTES',
  }),
  jobs: positive('jobs').nullable().default(null).meta({
    description:
      'So many simulations (of an arm with a seed, or of a fleet that is compared) run at once, each in a thread; what comes out is the same. Left out: one; for kvferry plan as many as there are processors.',
    value: 'N',
  }),
};

export const simulation = {
  arrivalRate: anyNumber('conversations a second, above 0', { above: 0 }).nullable().default(null).meta({
    description:
      'So many conversations begin in a second, whoever waits, with exponential gaps. Left out: --num-clients ask one after the other, as in bench.',
    value: 'R',
  }),
  arrivals: positive('conversations').nullable().default(null).meta({
    description:
      'With --arrival-rate: so many conversations come: as many are drawn, or those of a list come over and over. Left out: each once.',
    value: 'N',
  }),
  startUp: time('a time such as 240s, or 0', { min: 0 }).nullable().default(null).meta({
    description:
      "How long an engine takes to start that joins, or takes another's place. Left out: what --costs say; where they say nothing, BLIS's 240 s.",
    value: 'TIME',
  }),
  against: text('a file').nullable().default(null).meta({
    description:
      'A report that kvferry bench (of engines, or of a server with --endpoint) or replay wrote of the same workload: the simulation is shown beside it.',
    value: 'REPORT',
  }),
  validate: flag().default(false).meta({
    description:
      'Serves the workload on real engines here too, --rounds times (5), by costs that are measured on them in between, and shows how wrong the simulation is.',
    value: null,
  }),
};

/** Whether --costs names a file, and not what the program brings along. */
export const isCostsFile = (costs: string): boolean => /[./\\]/.test(costs);
