/** Types of `kvferry verify`: checks from several providers, each with a name and a verdict. */
import type { RunConfig } from '../../config/run.ts';
import type { ClusterHooks } from '../../fleet/hooks.ts';
import type { Cluster, ClusterOptions } from '../../fleet/types.ts';
import type { Architecture } from '../../model/types.ts';

export interface CheckResult {
  ok: boolean;
  /** What was compared and found, in one short sentence with numbers. */
  detail: string;
}

export interface Check {
  /** Letter of its group, see CHECK_GROUPS. */
  group: CheckGroup;
  name: string;
  /** A check that throws fails, with the error's message as detail. `say` reports progress. */
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
  startCluster(options: ClusterOptions, hooks?: ClusterHooks): Promise<Cluster>;
}

export interface CheckEnvironment {
  config: RunConfig;
  backend: Engines;
  /** The adapter is a software adapter. */
  software: boolean;
}

/** Creates a group's checks. */
export type CheckProvider = (environment: CheckEnvironment) => Promise<readonly Check[]>;

export interface VerifyProviders {
  kernels: CheckProvider;
  pulledBlocks: CheckProvider;
  /** Used only with --fixture. */
  fixture: CheckProvider;
}
