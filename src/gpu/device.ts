/**
 * One WebGPU device: its adapter, the features and limits requested, submission of work, and loss. It knows nothing of
 * kernels or models.
 */

import type { Arithmetic } from '../config/arithmetic.ts';
import { AdapterError, ConfigError, EngineDeadError, messageOf } from '../errors.ts';
import { adapterName, isSoftwareAdapter } from './adapter-name.ts';
import { type AdapterReport, fixedSubgroupSize } from './adapter-report.ts';
import { DeviceBytes } from './device-bytes.ts';

export interface DeviceNeeds {
  /** Bytes of the largest buffer. */
  bufferBytes: number;
  /** false: subgroups are neither requested nor reported, even if the adapter has them. Default true. */
  subgroups?: boolean;
  /** f16 requires the feature shader-f16. Default f32, which requires none. */
  arithmetic?: Arithmetic;
}

/** What to do without an adapter. */
function adviceFor(backend: string): string {
  if (backend === 'vulkan') return 'install a Vulkan driver, or use --adapter swiftshader (Linux x64)';
  // A page starts engines only after it was given an adapter (demo/src/session/support.ts).
  if (backend === 'webgpu')
    return 'the browser gives this page no GPU any more, as after a crash of the GPU: reload the page, or restart the browser';
  return 'check that this machine has a GPU, and that its driver is up to date';
}

const wantedFeatures = ['subgroups', 'timestamp-query'] as const;

/** Other limits stay at their defaults: kernels use at most 8 storage buffers and the default workgroup storage. */
const raisedLimits = [
  'maxBufferSize',
  'maxStorageBufferBindingSize',
  'maxComputeInvocationsPerWorkgroup',
  'maxComputeWorkgroupSizeX',
] as const;

export class GpuDevice {
  readonly device: GPUDevice;
  readonly report: AdapterReport;
  /** Resolves with the reason when the device is gone: lost, destroyed, or ended after it reported an error. */
  readonly lost: Promise<string>;
  readonly #bytes: DeviceBytes;
  readonly #nextPoll: (() => Promise<void>) | null;
  #polling = false;
  #reason: string | null = null;
  #announce!: (reason: string) => void;
  #inFlight: Promise<void> | null = null;
  readonly #waiting = new Set<(error: Error) => void>();
  /** The guarded promises themselves, which may settle later than the promises that guard() returned. */
  readonly #pending = new Set<Promise<unknown>>();

  private constructor(device: GPUDevice, report: AdapterReport, nextPoll: (() => Promise<void>) | null) {
    this.device = device;
    this.report = report;
    this.#nextPoll = nextPoll;
    this.#bytes = new DeviceBytes(device);
    this.lost = new Promise((resolve) => {
      this.#announce = resolve;
    });
    device.lost.then((info) => this.#end(`the device was lost (${info.reason}): ${info.message}`));
    device.addEventListener('uncapturederror', ({ error }) => this.reported(error.message));
  }

  /**
   * Throws AdapterError if there is no adapter or it lacks what `needs` requires, and ConfigError if f16 arithmetic is
   * requested and unsupported. `nextPoll`: see Platform.polls.
   */
  static async open(
    gpu: GPU,
    needs: DeviceNeeds,
    backend = 'webgpu',
    nextPoll: (() => Promise<void>) | null = null,
  ): Promise<GpuDevice> {
    const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
    if (!adapter) {
      throw new AdapterError(`WebGPU found no adapter: ${adviceFor(backend)}`);
    }
    const { bufferBytes, subgroups = true, arithmetic = 'f32' } = needs;
    const described = describeAdapter(adapter, backend);
    const report = { ...described, arithmetic, ...(subgroups ? {} : { subgroupSize: null }) };
    if (arithmetic === 'f16' && !adapter.features.has('shader-f16')) {
      throw new ConfigError(
        `--arithmetic is f16, and ${report.name} has no shader-f16: wanted f32 or auto, or an adapter with shader-f16 ` +
          '(see kvferry doctor)',
      );
    }
    const { maxBufferSize } = adapter.limits;
    if (bufferBytes > maxBufferSize) {
      throw new AdapterError(
        `${report.name}: maxBufferSize is ${maxBufferSize} bytes, but ${bufferBytes} are needed: ` +
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
      requiredLimits: Object.fromEntries(raisedLimits.map((limit) => [limit, adapter.limits[limit]])),
    });
    const device = await requested.catch((error: unknown) => {
      throw new AdapterError(
        `${report.name} opens no device (${messageOf(error)}): stop other programs that use it, or use another adapter (--adapter)`,
        { cause: error },
      );
    });
    return new GpuDevice(device, report, nextPoll);
  }

  /** Bytes of all live buffers. */
  get bufferBytes(): number {
    return this.#bytes.total;
  }

  /** Why the device is gone; null while it works. */
  get deadReason(): string | null {
    return this.#reason;
  }

  /** Throws EngineDeadError if the device is gone. */
  assertAlive(): void {
    if (this.#reason !== null) throw new EngineDeadError(this.#reason);
  }

  /**
   * Submits each element as soon as the iterable yields it, so that the device can start before the last is encoded.
   * Resolves when the device has completed all of them; rejects with EngineDeadError if the device ends first. Callers
   * wait before they run more, so that other submitters wait for at most one run. `done` is called after the last
   * submit and resolves on completion; the map of a buffer that the commands write also serves.
   */
  run(
    submits: Iterable<readonly GPUCommandBuffer[]>,
    done: () => Promise<unknown> = () => this.device.queue.onSubmittedWorkDone(),
  ): Promise<void> {
    this.assertAlive();
    for (const commands of submits) this.device.queue.submit(commands);
    const ended = this.guard(done()).then(() => {});
    this.#inFlight = ended;
    const clear = () => {
      if (this.#inFlight === ended) this.#inFlight = null;
    };
    ended.then(clear, clear);
    return ended;
  }

  /**
   * Writes zeros over buffers, in queue order. The buffers need usage COPY_DST. Required for buffers not mapped at
   * creation: kvferry disables Dawn's own zeroing (src/platform/node/gpu.ts).
   */
  zero(...buffers: readonly GPUBuffer[]): void {
    const encoder = this.device.createCommandEncoder({ label: 'zeros' });
    for (const buffer of buffers) encoder.clearBuffer(buffer);
    this.device.queue.submit([encoder.finish()]);
  }

  /** Resolves when the work in flight (see run) is done, or at once if there is none. Never rejects. */
  async idle(): Promise<void> {
    await this.#inFlight?.catch(() => {});
  }

  /** Wraps a promise of the device. The result rejects with EngineDeadError as soon as the device is gone. */
  async guard<T>(promise: Promise<T>): Promise<T> {
    this.#pending.add(promise);
    const settled = () => this.#pending.delete(promise);
    promise.then(settled, settled);
    this.assertAlive();
    void this.#poll();
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
      // A pending map is aborted just before the loss is reported.
      if (error instanceof Error && error.name === 'AbortError') {
        throw new EngineDeadError('the device was destroyed', { cause: error });
      }
      throw error;
    } finally {
      leave();
      promise.catch(() => {});
    }
  }

  /** Runs a synchronous creation. Throws `fail(message)` if it causes a validation or out-of-memory error. */
  async checked<T>(create: () => T, fail: (message: string) => Error): Promise<T> {
    this.device.pushErrorScope('out-of-memory');
    this.device.pushErrorScope('validation');
    const value = create();
    const errors = await Promise.all([this.device.popErrorScope(), this.device.popErrorScope()]);
    const error = errors.find((e) => e !== null);
    if (error) throw fail(error.message);
    return value;
  }

  /** Handles an error that no call returned, such as a validation error or exhausted memory: ends the device. */
  reported(message: string): void {
    this.#end(`the device reported an error: ${message}`);
  }

  /** Ends the device. Everything pending rejects with EngineDeadError. May be called more than once. */
  destroy(reason = 'the engine was closed'): void {
    this.#end(reason);
    this.device.destroy();
  }

  /**
   * Resolves when no guarded promise is pending. destroy() does not wait for them, and Dawn aborts the process if the
   * thread ends while one is pending.
   */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending);
  }

  /** Submits nothing, again and again, until nothing is pending: then the device looks for what it has completed. */
  async #poll(): Promise<void> {
    if (!this.#nextPoll || this.#polling) return;
    this.#polling = true;
    while (this.#pending.size > 0 && this.#reason === null) {
      await this.#nextPoll();
      this.device.queue.submit([]);
    }
    this.#polling = false;
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
  const named = [...features].sort();
  const { subgroupMinSize: min = null, subgroupMaxSize: max = null } = info;
  return {
    name: adapterName(info),
    vendor: info.vendor,
    architecture: info.architecture,
    description: info.description,
    backend,
    software: isSoftwareAdapter(info),
    features: named,
    subgroupSize: fixedSubgroupSize(named, { min, max }),
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
