/** Settings of the KV store. */
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

const bytes = () => byteCount('bytes, such as 64MiB, 1.5GB or a plain number');

export const store = {
  store: bytes().nullable().default(null).meta({
    description:
      "Memory for a KV store that all engines share: they save blocks to it and load them by content. vLLM's cpu_bytes_to_use. Default: no store.",
    value: 'BYTES',
  }),
  storeEviction: oneOf(EVICTIONS).default('s3fifo').meta({
    description:
      "Eviction policy of the store: s3fifo (AIBrix's variant and default), s3fifo-paper, lru (vLLM's default) or arc. vLLM's eviction_policy.",
    value: 's3fifo|s3fifo-paper|lru|arc',
  }),
  storePlace: oneOf(STORE_PLACES).default('local').meta({
    description:
      "Assumed place of the store. local: this machine's memory. remote: the modelled --link also lies between the store and each engine.",
    value: 'local|remote',
  }),
  storeDir: text('a folder').nullable().default(null).meta({
    description:
      'A folder as a second tier below store memory; its KV outlives the process. Created if missing. Texts pass through store memory, so no more of one text is reused than fits there. Without --store, store memory is 64MiB.',
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
        'A Redis or Valkey server as a second tier below store memory, for several machines: redis://HOST:6379. Any kvferry with the same model, layout and adapter can load its blocks. No more of one text is reused than fits into store memory. Without --store, store memory is 64MiB.',
      value: 'URL',
    }),
  storeDirSize: bytes()
    .default(2 ** 30)
    .meta({
      description:
        'Largest size of the folder; the least recently used blocks are removed first. Each process that shares a folder takes as much. For a server, set its own maxmemory.',
      value: 'BYTES',
    }),
  storeTtl: anyNumber('a number of seconds above 0', { above: 0 }).nullable().default(null).meta({
    description:
      'How long a block in the folder or on the server stays valid after it is written. Default: forever.',
    value: 'SECONDS',
  }),
  storeWrite: z
    .preprocess((value) => (typeof value === 'string' ? (HICACHE[value] ?? value) : value), oneOf(INGESTIONS))
    .default('ALL')
    .meta({
      description:
        "Which blocks are written to the folder or server. ALL: every block, at once. HOT: blocks that are used again. EVICTED: blocks evicted from memory, and the rest at the end. AIBrix's names; SGLang's write_through, write_through_selective and write_back mean the same.",
      value: 'ALL|HOT|EVICTED',
    }),
  storePrefetch: oneOf(PREFETCHES).default('wait_complete').meta({
    description:
      "How long a request waits for its blocks from the folder or server. wait_complete: for all of them, at most 2 s. timeout: 1 s plus 0.25 s per 1,024 tokens, at most 1.9 s. best_effort: not at all; they are loaded for the next request. SGLang's names.",
    value: 'wait_complete|timeout|best_effort',
  }),
  offloadPromptOnly: flag().default(true).meta({
    description:
      "Also save generated tokens, so that the next turn finds them in the store. vLLM's offload_prompt_only, which is true by default: D's output is then not saved.",
    value: null,
    negated: true,
  }),
};
