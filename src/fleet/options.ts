/** From a cluster's options to what each engine is started with. */
import type { Mode } from '../config/modes.ts';
import { ConfigError } from '../errors.ts';
import type { EngineStart } from '../host/messages.ts';
import type { ClusterOptions, PolicyChange } from './types.ts';

/** vLLM's default side channel port (VLLM_NIXL_SIDE_CHANNEL_PORT); here a name, no socket is opened. */
const SIDE_CHANNEL_PORT = 5600;

export const ROLES = ['prefill', 'decode'] as const;

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
    layout: options.layout,
    compileOrder: role === 'prefill' ? 'forwards' : 'backwards',
    link: options.link,
    checksum: options.checksum,
    gemm: options.gemm?.choice ?? null,
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

/** The options with the change made. ConfigError when a pool would be larger than its memory. */
export function changed(
  options: ClusterOptions,
  atStart: ClusterOptions,
  change: PolicyChange,
): ClusterOptions {
  const { connector } = options;
  const pool = (role: 'prefill' | 'decode', blocks: number): number => {
    const room = atStart[role].numBlocks;
    if (Number.isInteger(blocks) && blocks >= 2 && blocks <= room) return blocks;
    throw new ConfigError(
      `${role} was started with ${room} KV blocks and cannot use ${blocks}: give 2 to ${room}, or start with more`,
    );
  };
  return {
    ...options,
    mode: change.mode ?? options.mode,
    link: change.link === undefined ? options.link : change.link,
    handover: change.handover ?? options.handover,
    prefill: {
      numBlocks: pool('prefill', change.prefillBlocks ?? options.prefill.numBlocks),
      enablePrefixCaching: change.prefixCaching ?? options.prefill.enablePrefixCaching,
    },
    decode: {
      ...options.decode,
      numBlocks: pool('decode', change.decodeBlocks ?? options.decode.numBlocks),
    },
    connector: {
      ...connector,
      recomputeThreshold: change.recomputeThreshold ?? connector.recomputeThreshold,
      tokenCheck: change.tokenCheck ?? connector.tokenCheck,
      costProfile: change.costProfile === undefined ? (connector.costProfile ?? null) : change.costProfile,
      decoderTtlMs: change.decoderTtlMs ?? connector.decoderTtlMs,
    },
  };
}
