/**
 * What two engines must agree on before they can use each other's block bytes. The hash and its factors follow vLLM's NIXL
 * connector (compute_nixl_compatibility_hash). Block size is not part of the hash; it is checked separately.
 */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import type { EngineIdentity } from './types.ts';

/** Increment when messages or their meaning change. */
export const CONNECTOR_VERSION = 2;
/** Increment when the order of values within a block changes. */
export const BLOCK_LAYOUT_VERSION = 1;

export interface CompatibilityFactors {
  /** Identifies the weights: a preset's name and seed, or a digest of the checkpoint. */
  model: string;
  weightDtype: string;
  kvDtype: string;
  /** Precision of matrix products. Default: f32. */
  arithmetic?: string;
  numLayers: number;
  numKvHeads: number;
  headDim: number;
  /** Layout of a block on the device. */
  layout: string;
  /** Layers and window of each KV cache group. Default: one group of all layers. */
  groups?: string;
  /** Default: BLOCK_LAYOUT_VERSION. */
  blockLayoutVersion?: number;
  /** Default: CONNECTOR_VERSION. */
  connectorVersion?: number;
}

const withVersions = (factors: CompatibilityFactors): Required<CompatibilityFactors> => ({
  blockLayoutVersion: BLOCK_LAYOUT_VERSION,
  connectorVersion: CONNECTOR_VERSION,
  groups: 'one',
  arithmetic: 'f32',
  ...factors,
});

/** sha256 of the factors, keys in alphabetical order, as 64 hex digits. */
export function compatibilityHash(factors: CompatibilityFactors): string {
  const sorted = Object.entries(withVersions(factors)).sort(([a], [b]) => (a < b ? -1 : 1));
  return bytesToHex(sha256(utf8ToBytes(JSON.stringify(sorted))));
}

export interface HandshakeSide {
  identity: EngineIdentity;
  /** Used only in the error message; the hash decides. */
  factors: CompatibilityFactors | null;
}

/** Why the two cannot exchange blocks, in one sentence; null if they can. */
export function incompatibility(
  own: HandshakeSide,
  theirs: HandshakeSide,
  enforceHash: boolean,
): string | null {
  const a = own.identity;
  const b = theirs.identity;
  const who = `handshake of ${a.engineId} with ${b.engineId}`;
  if (a.blockSize !== b.blockSize) {
    return `${who}: block size differs (${a.blockSize} and ${b.blockSize} tokens); give both engines the same block size.`;
  }
  if (a.blockBytes.length !== b.blockBytes.length || a.blockBytes.some((n, i) => n !== b.blockBytes[i])) {
    const why = ['', ...factsThatDiffer(own, theirs)].join(', ');
    return `${who}: block bytes by group differ (${a.blockBytes.join(', ')} and ${b.blockBytes.join(', ')})${why}; give both engines the same model and KV dtype.`;
  }
  if (a.compatibilityHash === b.compatibilityHash || !enforceHash) return null;
  return `${who}: ${differences(own, theirs)}; give both engines the same, or set enforce_handshake_compat to false.`;
}

/** Empty if either side sent no factors. */
function factsThatDiffer(own: HandshakeSide, theirs: HandshakeSide): string[] {
  if (!own.factors || !theirs.factors) return [];
  const here = withVersions(own.factors);
  const there = withVersions(theirs.factors);
  return (Object.keys(here) as (keyof CompatibilityFactors)[])
    .filter((key) => here[key] !== there[key])
    .map((key) => `${key} is ${here[key]} here and ${there[key]} there`);
}

function differences(own: HandshakeSide, theirs: HandshakeSide): string {
  const facts = factsThatDiffer(own, theirs);
  if (facts.length > 0) return facts.join(', ');
  const short = (side: HandshakeSide) => side.identity.compatibilityHash.slice(0, 12);
  return `compatibility hash is ${short(own)}… here and ${short(theirs)}… there`;
}
