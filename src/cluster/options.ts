/** From a cluster's options to what each engine is started with. */
import type { EngineStart } from './messages.ts';
import type { ClusterOptions, Mode } from './types.ts';

/** vLLM's default side channel port (VLLM_NIXL_SIDE_CHANNEL_PORT); here a name, no socket is opened. */
const SIDE_CHANNEL_PORT = 5600;

const ROLES = ['prefill', 'decode'] as const;

export function engineStart(options: ClusterOptions, role: 'prefill' | 'decode', mode: Mode): EngineStart {
  const { numBlocks, enablePrefixCaching } = options[role];
  return {
    core: {
      engineId: `${role}-0`,
      host: 'localhost',
      port: SIDE_CHANNEL_PORT + ROLES.indexOf(role),
      cache: {
        blockSize: options.blockSize,
        numBlocks,
        enablePrefixCaching,
        hashSeed: 'kvferry',
        kvDtype: options.kvDtype,
      },
      scheduler: {
        maxNumBatchedTokens: options.maxNumBatchedTokens,
        maxNumSeqs: options.maxNumSeqs,
        maxModelLen: options.maxModelLen,
      },
      connector: { ...options.connector, bidirectional: mode === 'bidirectional' },
      // The engine fills them in from the model that it loads.
      eosTokenIds: [],
    },
    model: { name: options.model, weightSeed: options.weightSeed, weightDtype: options.weightDtype },
    link: options.link,
    checksum: options.checksum,
    keepLogits: options.keepLogits,
    poison: options.poison,
    fault: faultOf(options.fault, role),
  };
}

/** A flipped bit in the slab is the holder's doing; all else is done where the reader writes. */
function faultOf(fault: ClusterOptions['fault'], role: 'prefill' | 'decode'): EngineStart['fault'] {
  if (!fault) return null;
  const atReader = fault.kind !== 'flip-bit';
  return (fault.engine === role) === atReader ? fault.kind : null;
}
