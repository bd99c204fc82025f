/** What differs between Node and the browser. Everything else takes one of these and runs unchanged on both. */

/** Where a model's files come from: a directory, a dropped folder, a URL. */
export interface FileSource {
  /** For messages: a path or a URL. */
  readonly location: string;
  /** null when there is no such file. */
  readText(name: string): Promise<string | null>;
  size(name: string): Promise<number | null>;
  /** A part of a file; throws ModelError when it cannot be read. */
  readBytes(name: string, offset: number, length: number): Promise<Uint8Array>;
}

/** An engine's thread as seen from the thread that started it. */
export interface EngineThread {
  /** Plain postMessage / addEventListener('message'), as a MessagePort has. */
  readonly port: MessagePort;
  /** Called once, when the thread ended, cleanly or not. */
  onExit(listener: (reason: string) => void): void;
}

export interface Platform {
  readonly name: 'node' | 'browser';
  /** The graphics API below WebGPU: 'vulkan', 'metal', 'd3d12'; 'webgpu' where a browser does not tell. */
  readonly backend: string;
  /** One WGSL file of shaders/, by its path there without extension. */
  readShader(name: string): Promise<string>;
  /**
   * The GPU entry point; call in the thread that will own the device. Keep the result alive as long as its devices.
   * driverThreads: whether a software driver may compute with threads of its own, where engines differ in that.
   */
  createGpu(driverThreads?: boolean | null): Promise<GPU>;
  /** In the thread of a device that computes on this machine's processors: waiting for it is not to take one of them. */
  easePolling(): void;
  /** The files of a model that ships with the project ('recall'), or of a directory or URL the user names. */
  openModel(nameOrLocation: string): Promise<FileSource | null>;
  /** Bytes that engines can still take; null where nobody knows, as on a GPU with memory of its own. */
  freeMemory(): number | null;
  startEngineThread(name: string): Promise<EngineThread>;
}
