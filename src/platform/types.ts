/** What differs between Node and the browser. All other code receives a Platform and runs unchanged on both. */

/** Source of a model's files: a directory, a dropped folder, or a URL. */
export interface FileSource {
  /** Path or URL, for messages. */
  readonly location: string;
  /** null if the file does not exist. */
  readText(name: string): Promise<string | null>;
  size(name: string): Promise<number | null>;
  /** `length` bytes from `offset`. Throws ModelError if they cannot be read. */
  readBytes(name: string, offset: number, length: number): Promise<Uint8Array>;
}

/** A file in a store's folder. */
export interface StoreFile {
  /** Relative path with '/' as the separator; other characters are letters, digits, '-', '_' and '.'. */
  name: string;
  bytes: number;
  modifiedMs: number;
}

/** The folder where a store keeps files. Any call may reject. */
export interface StoreFolder {
  /** For messages. */
  readonly location: string;
  /**
   * Whether it holds no files but temporary ones; may look at the top level only. Rejects if the folder does not exist.
   */
  isEmpty(): Promise<boolean>;
  /**
   * Files in all subfolders, except those that are being written. Removes temporary files of dead writers, so call it
   * on a store's own folder only.
   */
  list(): Promise<StoreFile[]>;
  /** null if the file does not exist. */
  read(name: string): Promise<Uint8Array | null>;
  /**
   * Calls `use` with the file's bytes, or null if it does not exist, and resolves to its result. The bytes are valid
   * only during `use`: the buffer is then reused. For a file longer than `most` bytes, `use` may get only the first
   * `most + 1`. Absent: read() is as fast.
   */
  readFor?<T>(name: string, most: number, use: (file: Uint8Array | null) => T): Promise<T>;
  /**
   * Atomic: readers see the old file or the new one, even if the writer dies. Creates parent folders. If some are missing,
   * calls onMissing first: somebody may have removed the whole folder.
   */
  write(name: string, bytes: Uint8Array, onMissing?: () => Promise<void>): Promise<void>;
  /** Does nothing if the file does not exist. */
  remove(name: string): Promise<void>;
}

/** A key-value server, which may be shared with other programs. Any call may reject, or never settle. */
export interface KeyValueServer {
  /** For messages; contains no password. */
  readonly location: string;
  /** One result per key, in order. */
  has(keys: readonly string[]): Promise<boolean[]>;
  /**
   * null if the key does not exist. For a value longer than `most` bytes, returns its first `most + 1`. `wrong`: the
   * key holds something other than bytes.
   */
  get(key: string, most: number): Promise<Uint8Array | { wrong: string } | null>;
  /**
   * `ttlMs`: milliseconds to keep the value; null: no expiry. Resolves to null if stored, else to the server's reason
   * for refusing.
   */
  set(key: string, value: Uint8Array, ttlMs: number | null): Promise<string | null>;
  /** Missing keys are ignored. */
  remove(keys: readonly string[]): Promise<void>;
  /** Closes the connection; pending calls reject. The next call opens a new one. */
  drop(): void;
}

/** A server whose content can be listed. */
export interface ListedServer extends KeyValueServer {
  /**
   * Keys with this prefix, in batches, with the lengths of their values. `bytes` null: the value is not bytes. A key
   * may appear twice.
   */
  scan(prefix: string): AsyncIterable<readonly { key: string; bytes: number | null }[]>;
}

/** An engine's thread, seen from the thread that started it. */
export interface EngineThread {
  /** Plain postMessage and addEventListener('message'), as on any MessagePort. */
  readonly port: MessagePort;
  /** The listener is called once, when the thread has ended for any reason. */
  onExit(listener: (reason: string) => void): void;
  /**
   * Gives up on a thread that hangs. A browser terminates it. Node only stops it from keeping the process alive,
   * because ending a thread with GPU work pending would abort the process.
   */
  abandon(): void;
}

export interface Platform {
  readonly name: 'node' | 'browser';
  /** The graphics API below WebGPU: 'vulkan', 'metal' or 'd3d12'; 'webgpu' if a browser does not say. */
  readonly backend: string;
  /** Text of one WGSL file, by its path in shaders/ without extension. */
  readShader(name: string): Promise<string>;
  /**
   * The WebGPU entry point. Call it in the thread that will own the device, and keep the result alive as long as its
   * devices. driverThreads: whether a software driver may compute with its own threads; null if all engines have the
   * same setting. `meanwhile`: called again and again while another thread loads the driver; false if there is nothing
   * to do.
   */
  createGpu(driverThreads?: boolean | null, meanwhile?: () => Promise<boolean>): Promise<GPU>;
  /** Makes waiting for the device yield the processor. Call it in the thread of a software adapter. */
  easePolling(): void;
  /**
   * For devices that report what they have completed only when something is submitted: creates a function that resolves
   * when a device should be polled again. null: devices report by themselves.
   */
  readonly polls: (() => () => Promise<void>) | null;
  /**
   * Files of a model that ships with the project ('recall'), or of a directory or URL that the user names. null if
   * there is none.
   */
  openModel(nameOrLocation: string): Promise<FileSource | null>;
  /** Bytes of memory still available to engines; null if unknown, as for a GPU with its own memory. */
  freeMemory(): number | null;
  /** Memory mappings still available to engines (see checkMappings in src/fleet); null if unknown. */
  freeMappings(): number | null;
  startEngineThread(name: string): Promise<EngineThread>;
  /** A thread for a store; needs no GPU. Throws ConfigError if the platform cannot start one. */
  startStoreThread(): Promise<EngineThread>;
}
