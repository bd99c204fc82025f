/** The settings of a store beside the engines. */
import { byteCount, flag, oneOf } from './fields.ts';
import { EVICTIONS } from './store.ts';

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
  offloadPromptOnly: flag().default(true).meta({
    description:
      "Save what is generated too, so that the next turn finds it in the store. vLLM's offload_prompt_only, which is true unless told otherwise: D's output is then not saved.",
    value: null,
    negated: true,
  }),
};
