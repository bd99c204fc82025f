/** An adapter as described in reports. Limits are WebGPU's, in WebGPU's units. */
import type { Arithmetic } from '../config/arithmetic.ts';

export interface AdapterReport {
  /** Readable name: 'lavapipe (Mesa 25.0.7, LLVM 15.0.6)'. */
  name: string;
  vendor: string;
  architecture: string;
  description: string;
  /** 'vulkan', 'metal' or 'd3d12' if the platform knows, else 'webgpu'. */
  backend: string;
  software: boolean;
  features: string[];
  /** Lanes in a subgroup; null if the adapter has no single fixed size. */
  subgroupSize: number | null;
  limits: {
    maxBufferSize: number;
    maxStorageBufferBindingSize: number;
    maxComputeWorkgroupStorageSize: number;
    maxComputeInvocationsPerWorkgroup: number;
    maxComputeWorkgroupsPerDimension: number;
  };
  timestampQuery: boolean;
  /** The arithmetic that the device was opened for. Absent: f32. */
  arithmetic?: Arithmetic;
}

/** Lanes in a subgroup; null if the adapter has no single fixed size. */
export function fixedSubgroupSize(
  features: readonly string[],
  { min, max }: { min: number | null; max: number | null },
): number | null {
  return features.includes('subgroups') && min === max && min ? min : null;
}
