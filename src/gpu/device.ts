/**
 * One WebGPU device: what its adapter offers, what was asked of it, and its end. It submits work one piece at a time; it
 * knows no kernel and no model.
 */

import type { Arithmetic } from '../config/arithmetic.ts';
import { AdapterError, ConfigError, EngineDeadError, messageOf } from '../errors.ts';
import { adapterName, isSoftwareAdapter } from './adapter-name.ts';
import type { AdapterReport } from './adapter-report.ts';
import { DeviceBytes } from './device-bytes.ts';

export interface DeviceNeeds {
  /** Bytes of the largest buffer. */
  bufferBytes: number;
  /** Bytes of the largest storage binding, where known; whoever binds checks its own. */
  storageBindingBytes?: number;
  /** false: none are asked for, nor reported, whatever the adapter has. Default true. */
  subgroups?: boolean;
  /** Default f32: no more is asked for than that takes. */
  arithmetic?: Arithmetic;
}

const wantedFeatures = ['subgroups', 'timestamp-query'] as const;

/** Kernels keep to the default 8 storage buffers and to the default workgroup storage. */
const raisedSizes = ['maxBufferSize', 'maxStorageBufferBindingSize'] as const;
const raisedThreads = ['maxComputeInvocationsPerWorkgroup', 'maxComputeWorkgroupSizeX'] as const;

export class GpuDevice {
  readonly device: GPUDevice;
  readonly report: AdapterReport;
  /** Resolves, with the reason, when the device is gone: lost, destroyed, or broken by an error of ours. */
  readonly lost: Promise<string>;
  readonly #bytes: DeviceBytes;
  #reason: string | null = null;
  #announce!: (reason: string) => void;
  #inFlight: Promise<void> | null = null;
  readonly #waiting = new Set<(error: Error) => void>();
  /** The promises themselves, which may settle later than those that wait for them. */
  readonly #pending = new Set<Promise<unknown>>();

  private constructor(device: GPUDevice, report: AdapterReport) {
    this.device = device;
    this.report = report;
    this.#bytes = new DeviceBytes(device);
    this.lost = new Promise((resolve) => {
      this.#announce = resolve;
    });
    device.lost.then((info) => this.#end(`the device was lost (${info.reason}): ${info.message}`));
    device.addEventListener('uncapturederror', ({ error }) => this.reported(error.message));
  }

  /** Throws AdapterError when there is no adapter, or it lacks what is needed; ConfigError when f16 arithmetic is. */
  static async open(gpu: GPU, needs: DeviceNeeds, backend = 'webgpu'): Promise<GpuDevice> {
    const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
    if (!adapter) {
      throw new AdapterError(
        'WebGPU found no adapter: install a Vulkan driver, or use --adapter swiftshader (Linux x64)',
      );
    }
    const { bufferBytes, storageBindingBytes = 0, subgroups = true, arithmetic = 'f32' } = needs;
    const described = describeAdapter(adapter, backend);
    const report = { ...described, arithmetic, ...(subgroups ? {} : { subgroupSize: null }) };
    if (arithmetic === 'f16' && !adapter.features.has('shader-f16')) {
      throw new ConfigError(
        `--arithmetic is f16, and ${report.name} has no shader-f16: wanted f32 or auto, or an adapter that has it ` +
          '(kvferry doctor tells)',
      );
    }
    const needed = { maxBufferSize: bufferBytes, maxStorageBufferBindingSize: storageBindingBytes };
    for (const limit of raisedSizes) {
      if (needed[limit] <= adapter.limits[limit]) continue;
      throw new AdapterError(
        `${report.name}: ${limit} is ${adapter.limits[limit]} bytes, and ${needed[limit]} are needed: ` +
          'use fewer KV blocks, a smaller model, or another adapter (--adapter)',
      );
    }
    const requested = adapter.requestDevice({
      label: 'kvferry',
      requiredFeatures: [
        ...wantedFeatures.filter(
          (feature) => adapter.features.has(feature) && (subgroups || feature !== 'subgroups'),
        ),
        ...(arithmetic === 'f16' ? ['shader-f16'] : []),
      ] as GPUFeatureName[],
      requiredLimits: Object.fromEntries(
        [...raisedSizes, ...raisedThreads].map((limit) => [limit, adapter.limits[limit]]),
      ),
    });
    const device = await requested.catch((error: unknown) => {
      throw new AdapterError(
        `${report.name} gives no device (${messageOf(error)}): end what else uses it, or use another adapter (--adapter)`,
        { cause: error },
      );
    });
    return new GpuDevice(device, report);
  }

  /** Of all buffers that there are now. */
  get bufferBytes(): number {
    return this.#bytes.total;
  }

  /** Why the device is gone; null while it works. */
  get deadReason(): string | null {
    return this.#reason;
  }

  /** Throws EngineDeadError when the device is gone. */
  assertAlive(): void {
    if (this.#reason !== null) throw new EngineDeadError(this.#reason);
  }

  /**
   * Submits and resolves when the device has done it. Rejects with EngineDeadError when the device ends first. Callers
   * that submit step after step wait for each, so that what others submit between waits for one piece at most.
   * `done`, asked after the submit, tells that the work is done: the map of a buffer that it writes, for one.
   */
  run(
    commands: readonly GPUCommandBuffer[],
    done: () => Promise<unknown> = () => this.device.queue.onSubmittedWorkDone(),
  ): Promise<void> {
    this.assertAlive();
    this.device.queue.submit(commands);
    const ended = this.guard(done()).then(() => {});
    this.#inFlight = ended;
    const clear = () => {
      if (this.#inFlight === ended) this.#inFlight = null;
    };
    ended.then(clear, clear);
    return ended;
  }

  /**
   * Writes zeros over buffers that can be copied to, in queue order. Of a buffer that is not mapped at its creation nobody
   * else does on every platform.
   */
  zero(...buffers: readonly GPUBuffer[]): void {
    const encoder = this.device.createCommandEncoder({ label: 'zeros' });
    for (const buffer of buffers) encoder.clearBuffer(buffer);
    this.device.queue.submit([encoder.finish()]);
  }

  /** Resolves when the piece in flight (see run) is done; at once when there is none. Never rejects. */
  async idle(): Promise<void> {
    await this.#inFlight?.catch(() => {});
  }

  /** A promise of the device's, which rejects with EngineDeadError as soon as the device is gone. */
  async guard<T>(promise: Promise<T>): Promise<T> {
    this.#pending.add(promise);
    const settled = () => this.#pending.delete(promise);
    promise.then(settled, settled);
    this.assertAlive();
    let leave: () => void = () => {};
    const gone = new Promise<never>((_, reject) => {
      leave = () => this.#waiting.delete(reject);
      this.#waiting.add(reject);
    });
    try {
      const value = await Promise.race([promise, gone]);
      this.assertAlive();
      return value;
    } catch (error) {
      if (this.#reason !== null) throw new EngineDeadError(this.#reason, { cause: error });
      // A pending map is aborted just before the loss is announced.
      if (error instanceof Error && error.name === 'AbortError') {
        throw new EngineDeadError('the device was destroyed', { cause: error });
      }
      throw error;
    } finally {
      leave();
      promise.catch(() => {});
    }
  }

  /** Runs a synchronous creation and throws `fail(message)` for a validation or out-of-memory error in it. */
  async checked<T>(create: () => T, fail: (message: string) => Error): Promise<T> {
    this.device.pushErrorScope('out-of-memory');
    this.device.pushErrorScope('validation');
    const value = create();
    const errors = await Promise.all([this.device.popErrorScope(), this.device.popErrorScope()]);
    const error = errors.find((e) => e !== null);
    if (error) throw fail(error.message);
    return value;
  }

  /** An error that came beside any answer, of a wrong call or of memory that is used up: it is not used any more. */
  reported(message: string): void {
    this.#end(`the device reported an error: ${message}`);
  }

  /** Ends the device: everything pending rejects with EngineDeadError. Safe to call again. */
  destroy(reason = 'the engine was closed'): void {
    this.#end(reason);
    this.device.destroy();
  }

  /** Resolves when no guarded promise is pending, which destroy() does not wait for: Dawn aborts a process whose thread ends before. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending);
  }

  #end(reason: string): void {
    if (this.#reason !== null) return;
    this.#reason = reason;
    this.#announce(reason);
    for (const reject of this.#waiting) reject(new EngineDeadError(reason));
    this.#waiting.clear();
  }
}

export function describeAdapter(adapter: GPUAdapter, backend = 'webgpu'): AdapterReport {
  const { info, limits, features } = adapter;
  const min = info.subgroupMinSize ?? 0;
  const max = info.subgroupMaxSize ?? 0;
  return {
    name: adapterName(info),
    vendor: info.vendor,
    architecture: info.architecture,
    description: info.description,
    backend,
    software: isSoftwareAdapter(info),
    features: [...features].sort(),
    subgroupSize: features.has('subgroups') && min === max && min > 0 ? min : null,
    limits: {
      maxBufferSize: limits.maxBufferSize,
      maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
      maxComputeWorkgroupStorageSize: limits.maxComputeWorkgroupStorageSize,
      maxComputeInvocationsPerWorkgroup: limits.maxComputeInvocationsPerWorkgroup,
      maxComputeWorkgroupsPerDimension: limits.maxComputeWorkgroupsPerDimension,
    },
    timestampQuery: features.has('timestamp-query'),
  };
}
