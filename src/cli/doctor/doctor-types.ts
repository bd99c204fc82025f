/** Findings of `kvferry doctor`, and the probes that produce them. */
import type { Cluster } from '../../fleet/types.ts';

/** One driver, probed in its own process. */
export interface AdapterFinding {
  /** 'system', 'lavapipe', 'swiftshader'. */
  driver: string;
  /** null if Dawn accepts no adapter of this driver. */
  adapter: null | {
    name: string;
    software: boolean;
    features: readonly string[];
    maxBufferSize: number;
    maxStorageBufferBindingSize: number;
    subgroupMinSize: number | null;
    subgroupMaxSize: number | null;
  };
  /** Why there is no adapter. */
  error: string | null;
}

export interface CopyRateFinding {
  direction: 'P→shared→D' | 'D→shared→P';
  bytes: number;
  /** With overlapping stages, as transfers run. */
  gbps: number;
  /** The same stages without overlap; null if not measured. */
  byHandGbps: number | null;
}

export interface DoctorProbes {
  adapters(): Promise<readonly AdapterFinding[]>;
  /** As Platform.backend. */
  readonly backend: string;
  /** Whether the kernel has an NVIDIA driver, even if Vulkan does not find it. */
  nvidia(): boolean;
  /** Needs an idle cluster, which the caller closes afterwards. null: this build cannot measure it. */
  copyRates(cluster: Cluster): Promise<readonly CopyRateFinding[] | null>;
}
