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

/** A file of a store's folder. */
export interface StoreFile {
  /** Parts with slashes between, of letters, digits, '-', '_' and '.'. */
  name: string;
  bytes: number;
  modifiedMs: number;
}

/** Where a store keeps files. Any call may reject. */
export interface StoreFolder {
  /** For messages. */
  readonly location: string;
  /** Without looking any deeper. Rejects where there is no such folder. */
  isEmpty(): Promise<boolean>;
  /**
   * Of all folders in it; those that others just write are not listed, and what a dead writer left is removed: for a
   * store's own folder only.
   */
  list(): Promise<StoreFile[]>;
  /** null: there is no such file. */
  read(name: string): Promise<Uint8Array | null>;
  /**
   * What `use` gives of the file, whose bytes are another's afterwards; null: there is no such file. Of one that is longer than
   * `most` bytes one byte more may be all that comes. Absent: read() is as quick.
   */
  readFor?<T>(name: string, most: number, use: (file: Uint8Array | null) => T): Promise<T>;
  /** All of it or nothing: whoever reads, whenever a writer dies, sees the file as it was or as it is. Makes folders. */
  write(name: string, bytes: Uint8Array): Promise<void>;
  /** No-op where there is none. */
  remove(name: string): Promise<void>;
}

/** A server of values by key, which others use too. Any call may reject, and may take for ever. */
export interface KeyValueServer {
  /** For messages: without a password. */
  readonly location: string;
  /** In the keys' order. */
  has(keys: readonly string[]): Promise<boolean[]>;
  /**
   * null: there is none. Of one that is longer than `most` bytes no more than those and one further come. `wrong`: it is no
   * value of bytes.
   */
  get(key: string, most: number): Promise<Uint8Array | { wrong: string } | null>;
  /** `ttlMs`: from now on; null: for good. Resolves to why the server would not have it; null: it has it. */
  set(key: string, value: Uint8Array, ttlMs: number | null): Promise<string | null>;
  /** No-op for those that are not there. */
  remove(keys: readonly string[]): Promise<void>;
  /** Gives the connection up: what is still asked rejects. The next call connects anew. */
  drop(): void;
}

/** One that people look into. */
export interface ListedServer extends KeyValueServer {
  /** Keys that begin so, some at a time, with their values' lengths; null: it is no value of bytes. One may come twice. */
  scan(prefix: string): AsyncIterable<readonly { key: string; bytes: number | null }[]>;
}

/** An engine's thread as seen from the thread that started it. */
export interface EngineThread {
  /** Plain postMessage / addEventListener('message'), as a MessagePort has. */
  readonly port: MessagePort;
  /** Called once, when the thread ended, cleanly or not. */
  onExit(listener: (reason: string) => void): void;
  /**
   * Nobody waits for it any more, stuck as it is. A browser ends it; in Node, where ending a thread with work on a device
   * would end the process, it keeps no process alive.
   */
  abandon(): void;
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
  /** Mappings of memory that engines can still take: see checkMappings; null where nobody knows. */
  freeMappings(): number | null;
  startEngineThread(name: string): Promise<EngineThread>;
  /** For a store: it needs no GPU. Throws ConfigError where there can be none. */
  startStoreThread(): Promise<EngineThread>;
}
