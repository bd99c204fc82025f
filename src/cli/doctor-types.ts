/** What `kvferry doctor` reports on, and who finds it out. */
import type { Cluster } from '../fleet/types.ts';

/** One driver, as probed in a process of its own. */
export interface AdapterFinding {
  /** 'system', 'lavapipe', 'swiftshader'. */
  driver: string;
  /** null when Dawn accepts no adapter of this driver. */
  adapter: null | {
    name: string;
    software: boolean;
    features: readonly string[];
    maxBufferSize: number;
    maxStorageBufferBindingSize: number;
    subgroupMinSize: number | null;
    subgroupMaxSize: number | null;
  };
  /** Why there is none. */
  error: string | null;
}

export interface CopyRateFinding {
  direction: 'P→shared→D' | 'D→shared→P';
  bytes: number;
  /** As transfers run: stages overlap. */
  gbps: number;
  /** The same stages one after the other; null when not measured. */
  byHandGbps: number | null;
}

export interface DoctorProbes {
  adapters(): Promise<readonly AdapterFinding[]>;
  /** Whether the kernel has an NVIDIA driver, be it that Vulkan finds it or not. */
  nvidia(): boolean;
  /** The cluster is idle, and is closed afterwards. null: this build cannot measure it. */
  copyRates(cluster: Cluster): Promise<readonly CopyRateFinding[] | null>;
}
