/** Bodies and kv_transfer_params that a stranger might send: valid ones with some fields wrong, and garbage. */
import fc from 'fast-check';

const nasty = fc.constantFrom<unknown>(
  ...[
    null,
    true,
    false,
    0,
    -1,
    -0.5,
    0.5,
    1e9,
    2 ** 31,
    2 ** 53,
    -(2 ** 53),
    1e308,
    '',
    ' ',
    'nano',
    '\u2028',
  ],
  ...[
    '日',
    '\u0000',
    '\ud800',
    '__proto__',
    'x'.repeat(3000),
    [],
    {},
    [[]],
    [[[]]],
    [{}],
    [null],
    [-1],
    [1e9],
  ],
  ...[['a', 1], [1, 'a'], { a: [] }, Array(3000).fill(7), { __proto__: null, constructor: 1 }],
);
const junk: fc.Arbitrary<unknown> = fc.oneof(nasty, fc.jsonValue({ maxDepth: 2 }));

/** Mostly valid, sometimes junk. */
const field = (good: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 50, arbitrary: good }, { weight: 1, arbitrary: junk });

const text = fc.oneof(
  fc.string({ minLength: 1, maxLength: 40 }),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 12 }),
);
const id = fc.constantFrom('a', 'b', 'c');
const rarely = (what: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 7, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: what });
const tokenIds = fc.array(fc.integer({ min: 0, max: 511 }), { minLength: 1, maxLength: 40 });
const message = fc.record(
  {
    role: field(fc.constantFrom('user', 'user', 'assistant', 'system')),
    content: field(
      fc.oneof(text, fc.array(fc.record({ type: fc.constant('text'), text }), { maxLength: 3 })),
    ),
  },
  { requiredKeys: ['role'] },
);

const sampling = {
  max_tokens: field(fc.integer({ min: 1, max: 3 })),
  min_tokens: field(fc.integer({ min: 0, max: 1 })),
  temperature: field(fc.double({ min: 0.1, max: 2, noNaN: true })),
  top_p: field(fc.double({ min: 0.01, max: 1, noNaN: true })),
  top_k: field(fc.integer({ min: -1, max: 50 })),
  seed: field(fc.integer()),
  n: field(fc.integer({ min: 1, max: 3 })),
  stop: field(fc.oneof(text, fc.array(text, { maxLength: 3 }))),
  stop_token_ids: field(fc.array(fc.integer({ min: 0, max: 511 }), { maxLength: 100 })),
  allowed_token_ids: field(fc.array(fc.integer({ min: 0, max: 511 }), { minLength: 1, maxLength: 40 })),
  bad_words: field(fc.array(text, { maxLength: 4 })),
  ignore_eos: field(fc.boolean()),
  include_stop_str_in_output: field(fc.boolean()),
  logprobs: field(rarely(fc.oneof(fc.boolean(), fc.integer({ min: 0, max: 21 })))),
  presence_penalty: field(fc.constant(0)),
  logit_bias: field(fc.constant({})),
  response_format: field(fc.constant({ type: 'text' })),
};

const common = {
  model: field(fc.constant('nano')),
  stream: field(fc.boolean()),
  stream_options: field(
    fc.record({ include_usage: field(fc.boolean()), continuous_usage_stats: field(fc.boolean()) }),
  ),
  cache_salt: field(text),
  request_id: field(id),
  conversation_id: field(id),
  return_token_ids: field(fc.boolean()),
  top_logprobs: field(rarely(fc.integer({ min: 0, max: 20 }))),
  add_generation_prompt: field(fc.boolean()),
  continue_final_message: field(rarely(fc.boolean())),
  messages: field(fc.array(message, { minLength: 1, maxLength: 4 })),
  prompt: field(
    fc.oneof(text, tokenIds, fc.array(text, { maxLength: 3 }), fc.array(tokenIds, { maxLength: 3 })),
  ),
  token_ids: field(tokenIds),
  tokens: field(tokenIds),
  return_token_strs: field(fc.boolean()),
  kv_transfer_params: field(rarely(fc.record({ do_remote_decode: fc.boolean() }))),
  sampling_params: field(fc.record(sampling, { requiredKeys: [] })),
};

/** Any subset of the fields. */
const someOf = (fields: Record<string, fc.Arbitrary<unknown>>) => fc.record(fields, { requiredKeys: [] });

const good: fc.Arbitrary<object> = fc.tuple(someOf(sampling), someOf(common)).map(([asked, about]) => ({
  max_tokens: 2,
  messages: [{ role: 'user', content: 'a' }],
  prompt: 'a',
  token_ids: [1],
  sampling_params: {},
  ...asked,
  ...about,
}));

/** Request bodies as sent over the wire. */
export const bodies: fc.Arbitrary<string> = fc.oneof(
  { weight: 10, arbitrary: good.map((body) => JSON.stringify(body)) },
  { weight: 2, arbitrary: junk.map((value) => JSON.stringify(value) ?? '') },
  {
    weight: 2,
    arbitrary: fc
      .tuple(good, fc.double({ min: 0, max: 1, noNaN: true }), fc.string({ maxLength: 4 }))
      .map(([body, at, what]) => {
        const whole = JSON.stringify(body);
        const cut = Math.floor(at * whole.length);
        return whole.slice(0, cut) + what + (what.length % 2 ? whole.slice(cut) : '');
      }),
  },
  {
    weight: 1,
    arbitrary: fc.integer({ min: 1, max: 200 }).map((levels) => '['.repeat(levels) + ']'.repeat(levels)),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 200 }) },
);

/** What happens to one key of a set of parameters. */
export type Change =
  | { kind: 'keep' }
  | { kind: 'drop' }
  | { kind: 'set'; to: unknown }
  | { kind: 'nudge'; by: number };

const change: fc.Arbitrary<Change> = fc.oneof(
  { weight: 8, arbitrary: fc.constant<Change>({ kind: 'keep' }) },
  { weight: 1, arbitrary: fc.constant<Change>({ kind: 'drop' }) },
  { weight: 1, arbitrary: junk.map((to): Change => ({ kind: 'set', to })) },
  { weight: 2, arbitrary: fc.integer({ min: -20, max: 20 }).map((by): Change => ({ kind: 'nudge', by })) },
);

const KEYS = [
  ...['do_remote_decode', 'do_remote_prefill', 'remote_block_ids', 'remote_engine_id', 'remote_request_id'],
  ...[
    'remote_host',
    'remote_port',
    'tp_size',
    'remote_num_tokens',
    'remote_blocks_expiry_time',
    'remote_token_ids',
  ],
  ...['remote_num_requests', 'pull_policy', 'streamed', 'transfer_mode', 'dcp_size', '__proto__'],
] as const;

export const paramSets: fc.Arbitrary<Record<string, Change>> = fc.record(
  Object.fromEntries(KEYS.map((key) => [key, change])),
);

/** A copy of the parameters with the changes applied. */
export function changed(
  params: Record<string, unknown>,
  changes: Record<string, Change>,
): Record<string, unknown> {
  const result: Record<string, unknown> = { ...params };
  for (const [key, what] of Object.entries(changes)) {
    if (what.kind === 'drop') delete result[key];
    else if (what.kind === 'set') Object.defineProperty(result, key, { value: what.to, enumerable: true });
    else if (what.kind === 'nudge') result[key] = nudged(result[key], what.by);
  }
  return result;
}

function nudged(value: unknown, by: number): unknown {
  if (typeof value === 'number') return value + by;
  if (typeof value === 'boolean') return by % 2 ? !value : value;
  if (typeof value === 'string') return by < 0 ? value.slice(0, by) : `${value}${by}`;
  if (!Array.isArray(value)) return value;
  if (by < 0) return value.slice(0, by);
  return value.map((item, i) => (i === by % Math.max(1, value.length) ? nudged(item, by) : item));
}
