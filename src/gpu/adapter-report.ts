/** An adapter as reports tell of it. */
import type { Arithmetic } from '../config/arithmetic.ts';

export interface AdapterReport {
  /** For people: 'lavapipe (Mesa 25.0.7, LLVM 15.0.6)'. */
  name: string;
  vendor: string;
  architecture: string;
  description: string;
  /** 'vulkan', 'metal', 'd3d12' where the platform knows, else 'webgpu'. */
  backend: string;
  software: boolean;
  features: string[];
  /** Lanes of a subgroup where the adapter has one fixed size, else null. */
  subgroupSize: number | null;
  limits: {
    maxBufferSize: number;
    maxStorageBufferBindingSize: number;
    maxComputeWorkgroupStorageSize: number;
    maxComputeInvocationsPerWorkgroup: number;
    maxComputeWorkgroupsPerDimension: number;
  };
  timestampQuery: boolean;
  /** What a device of it was opened for; absent: f32. */
  arithmetic?: Arithmetic;
}
