/** Settings of `kvferry serve`. Names and defaults are those of `vllm serve` where it has the setting. */
import { anyNumber, countFrom0, flag, oneOf, text, wholeNumber, wholeNumberList } from './fields.ts';

const port = (what: string, fallback: number) =>
  wholeNumber('a port from 0 to 65535', { min: 0, max: 65535 })
    .default(fallback)
    .meta({ description: `Port of ${what}; 0 picks a free one.`, value: 'PORT' });

const enginePort = (what: string, fallback: number) =>
  wholeNumberList('ports from 0 to 65535, separated by commas', { min: 0, max: 65535 })
    .default([fallback])
    .meta({
      description: `Port of the first ${what}; the others use the following ports. Or one port each, separated by commas. 0 picks a free one.`,
      value: 'PORTS',
    });

export const serving = {
  port: port('the router', 8000),
  prefillPort: enginePort('P', 8100),
  decodePort: enginePort('D', 8200),
  adminPort: port(
    'the admin API: metrics, KV events, cache queries and controls of router and engines',
    8300,
  ),
  host: text('an address of this machine').default('127.0.0.1').meta({
    description:
      'Address to listen on. 0.0.0.0 is every interface and requires --api-key. vLLM listens on every interface.',
    value: 'HOST',
  }),
  adminHost: text('an address of this machine').default('127.0.0.1').meta({
    description: 'Address of the admin port. An address that other machines can reach requires --admin-key.',
    value: 'HOST',
  }),
  servedModelName: text('one or more names, separated by commas').nullable().default(null).meta({
    description: "Model names that clients may use, separated by commas. Default: the model's own.",
    value: 'NAMES',
  }),
  maxQueue: countFrom0('requests').default(256).meta({
    description:
      'Requests that may wait on a port, in addition to the --max-num-seqs being served. Further ones get 503 with Retry-After.',
    value: 'REQUESTS',
  }),
  apiKey: text('a key').nullable().default(null).meta({
    description:
      'Key that clients must send as Authorization: Bearer KEY. Default: the environment variable KVFERRY_API_KEY, which does not appear in process lists; else none.',
    value: 'KEY',
  }),
  adminKey: text('a key').nullable().default(null).meta({
    description:
      'Key for the admin API; it also works for the client API. Default: the environment variable KVFERRY_ADMIN_KEY, else none.',
    value: 'KEY',
  }),
  adminOnClientPorts: flag().default(false).meta({
    description:
      'Also serve /kv/query, /kv/events and /reset_prefix_cache on the ports of router, P and D, for older scripts.',
    value: null,
  }),
  faultEndpoint: flag().default(false).meta({
    description:
      'Accept POST /faults on the admin port: kill, hang or slow engines down, and lose or delay messages between them. For testing routers and clients. All messages between engines then pass through the main thread.',
    value: null,
  }),
  kvCacheMetrics: flag().default(false).meta({
    description:
      "Add three of vLLM's metrics to each engine, for a sample of KV blocks: histograms of lifetime, idle time before eviction, and time between hits.",
    value: null,
  }),
  kvCacheMetricsSample: anyNumber('a share above 0 and up to 1', { above: 0, max: 1 }).default(0.01).meta({
    description: 'Share of KV blocks that --kv-cache-metrics samples.',
    value: 'SHARE',
  }),
  corsOrigin: text("one or more origins, separated by commas, or '*'").nullable().default(null).meta({
    description: 'Origins whose pages may send requests, separated by commas. Default: none.',
    value: 'ORIGINS',
  }),
  allowedHosts: text("one or more names, separated by commas, or '*'").nullable().default(null).meta({
    description:
      "Accepted Host headers, separated by commas, such as a proxy's or a container's name. This machine's names and any IP address are always accepted; '*' accepts all.",
    value: 'HOSTS',
  }),
  writeTimeout: anyNumber('a number of seconds, 0.1 or more', { min: 0.1, max: 86_400 }).default(60).meta({
    description:
      'If a client reads nothing of its pending data for this long, its connection is closed and its request aborted.',
    value: 'SECONDS',
  }),
  streamingKvParams: oneOf(['on', 'off']).default('on').meta({
    description:
      'Whether the last chunk of a stream contains kv_transfer_params, which the multi-turn proxy reads. off is stock vLLM.',
    value: 'on|off',
  }),
  logFormat: oneOf(['text', 'json']).default('text').meta({
    description: 'Format of the log on stderr: one or two lines per request.',
    value: 'text|json',
  }),
  accessLog: flag().default(true).meta({
    description: 'Do not log requests; errors are still logged.',
    value: null,
    negated: true,
  }),
  grace: anyNumber('a number of seconds, 0 or more', { min: 0 }).default(10).meta({
    description: 'How long running requests may continue after the server is told to stop.',
    value: 'SECONDS',
  }),
};

/** Names separated by commas; empty ones are skipped. */
export const namesIn = (names: string | null): string[] =>
  (names ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
