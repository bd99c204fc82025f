/** The settings of a store beside the engines. */
import { z } from 'zod';
import { anyNumber, byteCount, flag, oneOf, text } from './fields.ts';
import { EVICTIONS, INGESTIONS, type Ingestion, PREFETCHES, STORE_PLACES } from './store.ts';
import { wrongInStoreUrl } from './store-url.ts';

/** SGLang HiCache's write policies. */
const HICACHE: Readonly<Record<string, Ingestion>> = {
  write_through: 'ALL',
  write_through_selective: 'HOT',
  write_back: 'EVICTED',
};

const WANTED_URL = 'redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// for TLS';

const bytes = () => byteCount('bytes, such as 64MiB, 1.5GB or a plain number of them');

export const store = {
  store: bytes().nullable().default(null).meta({
    description:
      "Memory for a store of KV beside the engines, which all of them save to and load from by content. vLLM's cpu_bytes_to_use. Left out: there is none.",
    value: 'BYTES',
  }),
  storeEviction: oneOf(EVICTIONS).default('s3fifo').meta({
    description:
      "What leaves the store when it is full: s3fifo (AIBrix's variant and default), s3fifo-paper, lru (vLLM's default) or arc. vLLM's eviction_policy.",
    value: 's3fifo|s3fifo-paper|lru|arc',
  }),
  storePlace: oneOf(STORE_PLACES).default('local').meta({
    description:
      'Where the store is taken to be: local is memory of this machine; remote puts the modelled --link between it and every engine too.',
    value: 'local|remote',
  }),
  storeDir: text('a folder').nullable().default(null).meta({
    description:
      'A folder below the store, whose KV outlives the process: made where it is missing. With --store left out that is 64MiB.',
    value: 'DIR',
  }),
  storeUrl: text(WANTED_URL)
    .superRefine((url, context) => {
      const wrong = wrongInStoreUrl(url);
      if (wrong !== null) context.addIssue({ code: 'custom', message: `${WANTED_URL} (it ${wrong})` });
    })
    .nullable()
    .default(null)
    .meta({
      description:
        'A Redis or Valkey server below the store, for several machines: redis://HOST:6379. What is there any kvferry of the same model, layout and adapter loads. With --store left out that is 64MiB.',
      value: 'URL',
    }),
  storeDirSize: bytes()
    .default(2 ** 30)
    .meta({
      description:
        "Of the folder at most; what was not used longest goes. A server's own limit is its maxmemory.",
      value: 'BYTES',
    }),
  storeTtl: anyNumber('a number of seconds above 0', { above: 0 }).nullable().default(null).meta({
    description:
      'How long a block in the folder or on the server is good, from its writing on. Left out: for good.',
    value: 'SECONDS',
  }),
  storeWrite: z
    .preprocess((value) => (typeof value === 'string' ? (HICACHE[value] ?? value) : value), oneOf(INGESTIONS))
    .default('ALL')
    .meta({
      description:
        "Which blocks the folder and the server get: ALL as they come, HOT those that are used again, EVICTED those that leave memory, and the rest at the end. AIBrix's names; SGLang's write_through, write_through_selective and write_back are the same.",
      value: 'ALL|HOT|EVICTED',
    }),
  storePrefetch: oneOf(PREFETCHES).default('wait_complete').meta({
    description:
      "How long a request waits for its blocks to come up from the folder or the server: for all of them (2 s at most), a second and a quarter more for each 1,024 tokens (timeout), or not at all: they come up for the next one (best_effort). SGLang's names.",
    value: 'wait_complete|timeout|best_effort',
  }),
  offloadPromptOnly: flag().default(true).meta({
    description:
      "Save what is generated too, so that the next turn finds it in the store. vLLM's offload_prompt_only, which is true unless told otherwise: D's output is then not saved.",
    value: null,
    negated: true,
  }),
};
