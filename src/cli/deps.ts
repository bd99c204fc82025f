/** All that the commands need of the world, so that tests can run them without a terminal, a GPU or a process. */
import type { RunConfig } from '../config/run.ts';
import type { Seat } from '../fleet/seats.ts';
import type { Cluster, ClusterOptions } from '../fleet/types.ts';
import type { ReportSource } from '../lab/run-report.ts';
import type { Engines, VerifyProviders } from '../lab/verify/types.ts';
import type { ListedServer, StoreFolder } from '../platform/types.ts';
import type { RunningServer, ServerOptions } from '../server/serve.ts';
import type { Vocabulary } from '../workload/types.ts';
import type { DoctorProbes } from './doctor-types.ts';
import type { SimulationThread, ThreadWork } from './simulate/thread.ts';

export interface Output {
  write(text: string): void;
  readonly isTTY: boolean;
  /** Width of the terminal; tables keep to 80 anyway. */
  readonly columns: number;
}

export interface TextFile {
  write(text: string): void;
  /** Resolves when what was written has left memory, but for a little. */
  drained(): Promise<void>;
  close(): Promise<void>;
  /** In place of close(): what did not come to its end is no file. */
  discard(): Promise<void>;
}

export interface ChosenAdapter {
  name: string;
  software: boolean;
}

/** Models, adapters and engines; startCluster needs useAdapter. */
export interface Backend extends Engines {
  /** Sets the adapter for this process, once. Throws AdapterError. */
  useAdapter(choice: string): Promise<ChosenAdapter>;
  /** What counts and makes text of a model. Throws ModelError. */
  tokenizer(model: string): Promise<Vocabulary>;
  /** File name to content: what a Hugging Face tokenizer loads from. */
  tokenizerFiles(model: string): Promise<Readonly<Record<string, string>>>;
}

/** Real sockets. */
export interface Servers {
  /** Before anything costly starts. Throws ConfigError. */
  check(server: ServerOptions, engines: readonly Seat[]): Promise<void>;
  /** Starts engines, has them prepared, and opens ports. Throws KvferryError, with nothing left running. */
  start(
    cluster: ClusterOptions,
    server: ServerOptions,
    prepare: (cluster: Cluster) => Promise<void>,
  ): Promise<RunningServer>;
}

export interface CliDeps extends ReportSource {
  stdout: Output;
  stderr: Output;
  /** The stream behind stderr, for a progress bar; null without a terminal. */
  progressStream: NodeJS.WriteStream | null;
  color: boolean;
  /** Throw ConfigError that names the path. */
  readTextFile(path: string): Promise<string>;
  /** In pieces, for files that may be long. */
  readTextPieces(path: string): AsyncIterable<string>;
  /** What tells a plain file from all others, by whatever path; null: there is none, or it is a pipe or a device. */
  plainFileId(path: string): Promise<string | null>;
  writeTextFile(path: string, content: string): Promise<void>;
  checkWritable(path: string): Promise<void>;
  /** Written as it comes. Throws ConfigError; a later failure is thrown by close(). */
  createTextFile(path: string): Promise<TextFile>;
  makeDirectory(path: string): Promise<void>;
  /** Of a store; opens nothing yet. */
  storeFolder(path: string): StoreFolder;
  /** Below a store, at a URL that was checked; connects when it is asked. */
  storeServer(url: string): Promise<ListedServer>;
  /** Of this machine in the last minute: how many wanted to compute, on average. */
  loadAverage(): number;
  /** Milliseconds. */
  now(): number;
  /** Resolves after so many milliseconds, or at once when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** An environment variable; null when it is not set. */
  environment(name: string): string | null;
  /** Calls back at every Ctrl-C; returns how to stop listening. */
  onInterrupt(listener: () => void): () => void;
  /** Calls back when nobody reads stdout or stderr any more; returns how to stop listening. */
  onOutputLost(listener: () => void): () => void;
  /** Ends the process at once. */
  exitNow(code: number): void;
  backend: Backend;
  servers: Servers;
  doctor: DoctorProbes;
  /** For --jobs; the settings have been checked. */
  startSimulationThread<Work extends ThreadWork>(work: Work, config: RunConfig): SimulationThread<Work>;
  verify: VerifyProviders;
}

/** What a command gets besides its own arguments. */
export interface CommandContext {
  deps: CliDeps;
  /** Aborts at the first Ctrl-C. */
  signal: AbortSignal;
}

/** Exit codes; unread is what a shell says of a program that SIGPIPE ended. */
export const EXIT = { good: 0, failed: 1, usage: 2, assertion: 3, interrupted: 130, unread: 141 } as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];
