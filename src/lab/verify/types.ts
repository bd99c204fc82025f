/** What `kvferry verify` runs: checks with a name and a verdict, from several providers. */
import type { RunConfig } from '../../config/run.ts';
import type { ClusterSeams } from '../../fleet/seams.ts';
import type { Cluster, ClusterOptions } from '../../fleet/types.ts';
import type { Architecture } from '../../model/types.ts';

export interface CheckResult {
  ok: boolean;
  /** What was compared and found, in one short sentence with its numbers. */
  detail: string;
}

export interface Check {
  /** Letter of its group, see CHECK_GROUPS. */
  group: CheckGroup;
  name: string;
  /** Throwing is failing: the error's message becomes the detail. `say` tells what is under way. */
  run(say: (what: string) => void, signal: AbortSignal): Promise<CheckResult>;
}

export const CHECK_GROUPS = {
  a: 'kernels one by one against a float64 oracle',
  b: 'the modes give the same tokens and logits',
  c: "pulled blocks equal the holder's, byte for byte, and what a recompute gives",
  d: 'negative controls: damaged KV is noticed',
  e: 'a fixture: logits and KV against expected.safetensors',
} as const;

export type CheckGroup = keyof typeof CHECK_GROUPS;

/** Starts engines for the checks. */
export interface Engines {
  /** Throws ModelError. */
  architecture(model: string): Promise<Architecture>;
  /** Throws KvferryError. */
  startCluster(options: ClusterOptions, seams?: ClusterSeams): Promise<Cluster>;
}

export interface CheckEnvironment {
  config: RunConfig;
  backend: Engines;
  /** The adapter in use computes on the CPU. */
  software: boolean;
}

/** Makes a group's checks. */
export type CheckProvider = (environment: CheckEnvironment) => Promise<readonly Check[]>;

/** A group whose provider is null has no checks in this build, which fails `verify`: what was not checked is not good. */
export interface VerifyProviders {
  kernels: CheckProvider | null;
  pulledBlocks: CheckProvider | null;
  /** Asked only with --fixture. */
  fixture: CheckProvider | null;
}
