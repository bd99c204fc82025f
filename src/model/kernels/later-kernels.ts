/**
 * Creates kernels while the engine serves, after a step would have been faster with them. Steps use other kernels until
 * one is ready, and never wait.
 */
import type { GpuDevice } from '../../gpu/device.ts';
import { submitFirstDispatches } from '../../gpu/first-dispatch.ts';
import { type Kernel, KernelLibrary, type ReadShader } from '../../gpu/kernels.ts';

export interface LaterKernelsOptions {
  gpu: GpuDevice;
  library: KernelLibrary;
  readShader: ReadShader;
  /**
   * Opens a second device of the same driver, for drivers that compile at the first dispatch. Compiling there blocks no
   * step, and the engine's own device then finds the result in the driver's disk cache. null: the driver compiles when
   * a pipeline is created.
   */
  openCompiler: (() => Promise<GpuDevice>) | null;
}

export class LaterKernels {
  readonly #options: LaterKernelsOptions;
  readonly #asked = new Set<Kernel>();
  readonly #line: Kernel[] = [];
  #making: Promise<void> | null = null;
  #compiler: GpuDevice | null = null;
  #closed = false;

  constructor(options: LaterKernelsOptions) {
    this.#options = options;
  }

  /** Queues the kernel; the next begin() starts creating it. If it does not compile, the engine's device ends. */
  want(kernel: Kernel): void {
    if (this.#asked.has(kernel) || this.#closed) return;
    this.#asked.add(kernel);
    this.#line.push(kernel);
  }

  /**
   * Starts creating the queued kernels. Call it after a step: the first step requests most of them, and a user is
   * waiting for it.
   */
  begin(): void {
    if (this.#line.length > 0 && !this.#closed) this.#making ??= this.#make();
  }

  /** Resolves when everything requested is ready, or nothing more will be created. */
  async settled(): Promise<void> {
    await this.#making;
  }

  close(): void {
    this.#closed = true;
    this.#compiler?.destroy();
  }

  async #make(): Promise<void> {
    const { gpu, library, openCompiler } = this.#options;
    try {
      // Without the second device, or after it has failed, the engine's own compiles: a step waits, but none fails.
      const compiler = (await openCompiler?.().catch(() => null)) ?? null;
      this.#compiler = compiler;
      for (let kernel = this.#line.shift(); kernel && !this.#closed; kernel = this.#line.shift()) {
        if (compiler) await this.#compileOn(compiler, kernel).catch(() => {});
        if (this.#closed) return;
        submitFirstDispatches(gpu, library, [await library.make(kernel)]);
      }
    } catch (error) {
      if (!this.#closed) gpu.reported(error instanceof Error ? error.message : String(error));
    } finally {
      this.#compiler?.destroy();
      await this.#compiler?.settled();
      this.#compiler = null;
      this.#making = null;
      this.begin();
    }
  }

  async #compileOn(compiler: GpuDevice, { name, overrides }: Kernel): Promise<void> {
    const library = new KernelLibrary(compiler, this.#options.readShader);
    submitFirstDispatches(compiler, library, [await library.get(name, overrides)]);
    await compiler.run([]);
  }
}
