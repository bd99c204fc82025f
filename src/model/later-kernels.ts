/**
 * Kernels that are made while an engine serves, since a step would have been quicker with them. Steps take others until one
 * is there: none waits for it.
 */
import type { GpuDevice } from '../gpu/device.ts';
import { submitFirstDispatches } from '../gpu/first-dispatch.ts';
import { type Kernel, KernelLibrary, type ReadShader } from '../gpu/kernels.ts';

export interface LaterKernelsOptions {
  gpu: GpuDevice;
  library: KernelLibrary;
  readShader: ReadShader;
  /**
   * A device of the same driver, where that compiles at the first dispatch: there it keeps no step waiting, and the engine's
   * own then finds it on the driver's disk. null: the driver compiles when a pipeline is made.
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

  /** It will be made from the next begin() on. A kernel that does not compile ends the engine's device. */
  want(kernel: Kernel): void {
    if (this.#asked.has(kernel) || this.#closed) return;
    this.#asked.add(kernel);
    this.#line.push(kernel);
  }

  /** Begins to make what was wanted: when a step has ended, since the first one, which wants most, is waited for. */
  begin(): void {
    if (this.#line.length > 0 && !this.#closed) this.#making ??= this.#make();
  }

  /** Resolves when all that was wanted is made, or none will be. */
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
      const compiler = (await openCompiler?.()) ?? null;
      this.#compiler = compiler;
      for (let kernel = this.#line.shift(); kernel && !this.#closed; kernel = this.#line.shift()) {
        if (compiler) await this.#compileOn(compiler, kernel);
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
