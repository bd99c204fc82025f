/** Settings of `kvferry serve`. Names and defaults are those of `vllm serve` where it has the setting. */
import { anyNumber, countFrom0, flag, oneOf, text, wholeNumber, wholeNumbers } from './fields.ts';

const port = (what: string, fallback: number) =>
  wholeNumber('a port from 0 to 65535', { min: 0, max: 65535 })
    .default(fallback)
    .meta({ description: `Port of ${what}; 0 takes any free one.`, value: 'PORT' });

const enginePort = (what: string, fallback: number) =>
  wholeNumbers('ports from 0 to 65535 with commas between', { min: 0, max: 65535 })
    .default([fallback])
    .meta({
      description: `Port of the first ${what}, which the others' follow; or one for each, with commas between; 0 takes any free one.`,
      value: 'PORTS',
    });

export const serving = {
  port: port('the router', 8000),
  prefillPort: enginePort('P', 8100),
  decodePort: enginePort('D', 8200),
  adminPort: port('the operator: metrics, KV events, cache queries and controls of each port', 8300),
  host: text('an address of this machine').default('127.0.0.1').meta({
    description:
      'Address to listen on; 0.0.0.0 is every interface, and wants an --api-key. vLLM: every interface.',
    value: 'HOST',
  }),
  adminHost: text('an address of this machine').default('127.0.0.1').meta({
    description: "Address of the operator's port; one that other machines reach wants an --admin-key.",
    value: 'HOST',
  }),
  servedModelName: text('one or more names with commas between').nullable().default(null).meta({
    description: "Names that clients give the model, with commas between. Left out: the model's own.",
    value: 'NAMES',
  }),
  maxQueue: countFrom0('requests').default(256).meta({
    description:
      'Requests that may wait on a port, beside the --max-num-seqs that are served; the next gets 503 with Retry-After.',
    value: 'REQUESTS',
  }),
  apiKey: text('a key').nullable().default(null).meta({
    description:
      'Wanted from clients as Authorization: Bearer KEY. Left out: KVFERRY_API_KEY of the environment, which no process list shows, or none.',
    value: 'KEY',
  }),
  adminKey: text('a key').nullable().default(null).meta({
    description:
      "Wanted for the operator's paths, and does for the clients' too. Left out: KVFERRY_ADMIN_KEY of the environment, or none.",
    value: 'KEY',
  }),
  adminOnClientPorts: flag().default(false).meta({
    description:
      "The operator's paths on the ports of router, P and D too, where older scripts look for them.",
    value: null,
  }),
  faultEndpoint: flag().default(false).meta({
    description:
      "The operator's port takes POST /faults: engines are killed, hang or slow down, messages between them are lost or late. For testing routers and clients; every message between engines passes the main thread then.",
    value: null,
  }),
  kvCacheMetrics: flag().default(false).meta({
    description:
      "Histograms of how long KV blocks stay, are idle before they are evicted, and between hits, of a sample: three more of vLLM's metrics of each engine.",
    value: null,
  }),
  kvCacheMetricsSample: anyNumber('a share above 0 and up to 1', { above: 0, max: 1 }).default(0.01).meta({
    description: 'Share of KV blocks that --kv-cache-metrics follows.',
    value: 'SHARE',
  }),
  corsOrigin: text("one or more origins with commas between, or '*'").nullable().default(null).meta({
    description: 'Whose pages may ask, with commas between. Left out: no other origin.',
    value: 'ORIGINS',
  }),
  allowedHosts: text("one or more names with commas between, or '*'").nullable().default(null).meta({
    description:
      "Names that clients ask under (the header Host), with commas between: a proxy's, a container's. This machine's names and any address always do; '*' is any name.",
    value: 'HOSTS',
  }),
  writeTimeout: anyNumber('a number of seconds, 0.1 or more', { min: 0.1, max: 86_400 }).default(60).meta({
    description:
      'A client that takes nothing of what waits for it for so long loses its connection, and its request is aborted.',
    value: 'SECONDS',
  }),
  streamingKvParams: oneOf(['on', 'off']).default('on').meta({
    description:
      'kv_transfer_params in the last chunk of a stream, where the multi-turn proxy looks for them; off is stock vLLM.',
    value: 'on|off',
  }),
  logFormat: oneOf(['text', 'json']).default('text').meta({
    description: 'Of the lines on stderr, one or two a request.',
    value: 'text|json',
  }),
  accessLog: flag().default(true).meta({
    description: 'No lines of requests; errors are still told.',
    value: null,
    negated: true,
  }),
  grace: anyNumber('a number of seconds, 0 or more', { min: 0 }).default(10).meta({
    description: 'How long requests under way may go on when the server is told to stop.',
    value: 'SECONDS',
  }),
};
