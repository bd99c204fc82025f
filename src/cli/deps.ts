/** The commands' external dependencies. Tests replace them to run without a terminal, GPU or process. */
import type { RunConfig } from '../config/run.ts';
import type { Seat } from '../fleet/seats.ts';
import type { Cluster, ClusterOptions } from '../fleet/types.ts';
import type { ReportSource } from '../lab/run-report.ts';
import type { Engines, VerifyProviders } from '../lab/verify/types.ts';
import type { ListedServer, StoreFolder } from '../platform/types.ts';
import type { RunningServer, ServerOptions } from '../server/serve.ts';
import type { Vocabulary } from '../workload/types.ts';
import type { DoctorProbes } from './doctor/doctor-types.ts';
import type { SimulationThread, ThreadWork } from './simulate/thread.ts';

export interface Output {
  write(text: string): void;
  readonly isTTY: boolean;
  /** Width of the terminal; tables are limited to 80 columns regardless. */
  readonly columns: number;
}

export interface TextFile {
  write(text: string): void;
  /** Resolves when most of what was written has left memory. */
  drained(): Promise<void>;
  close(): Promise<void>;
  /** Instead of close(): removes an incomplete file. */
  discard(): Promise<void>;
}

export interface ChosenAdapter {
  name: string;
  software: boolean;
}

/** Models, adapters and engines. Call useAdapter before startCluster. */
export interface Backend extends Engines {
  /** Chooses the adapter for this process; call it once. Throws AdapterError. */
  useAdapter(choice: string): Promise<ChosenAdapter>;
  /** A model's tokenizer. Throws ModelError. */
  tokenizer(model: string): Promise<Vocabulary>;
  /** The files of a Hugging Face tokenizer: content by file name. */
  tokenizerFiles(model: string): Promise<Readonly<Record<string, string>>>;
}

/** Real sockets. */
export interface Servers {
  /** Checks settings before anything expensive starts. Throws ConfigError. */
  check(server: ServerOptions, engines: readonly Seat[]): Promise<void>;
  /** Starts engines, runs `prepare`, and opens ports. If it throws KvferryError, nothing is left running. */
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
  /** Runs a JavaScript module and returns what it exports. */
  importModule(path: string): Promise<unknown>;
  /** Reads in pieces, for long files. */
  readTextPieces(path: string): AsyncIterable<string>;
  /** An id that identifies a regular file under any path; null if it does not exist or is a pipe or device. */
  plainFileId(path: string): Promise<string | null>;
  writeTextFile(path: string, content: string): Promise<void>;
  checkWritable(path: string): Promise<void>;
  /** A file for streaming writes. Throws ConfigError; close() throws later failures. */
  createTextFile(path: string): Promise<TextFile>;
  makeDirectory(path: string): Promise<void>;
  /** A store's folder; does not open it yet. */
  storeFolder(path: string): StoreFolder;
  /** A store's server at a checked URL; connects on first use. */
  storeServer(url: string): Promise<ListedServer>;
  /** The machine's load average over the last minute. */
  loadAverage(): number;
  /** Milliseconds. */
  now(): number;
  /** Resolves after `ms` milliseconds, or at once if the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Resolves in a later turn of the event loop. Rejects once the user has interrupted the command. */
  nextTask(): Promise<void>;
  /** An environment variable; null if unset. */
  environment(name: string): string | null;
  /** Calls back at every Ctrl-C and SIGTERM; returns a function that stops listening. */
  onInterrupt(listener: () => void): () => void;
  /** Calls back when the reader of stdout or stderr has gone; returns a function that stops listening. */
  onOutputLost(listener: () => void): () => void;
  /** Ends the process at once, by the last signal it got; by that of Ctrl-C if it got none. */
  exitNow(): void;
  backend: Backend;
  servers: Servers;
  doctor: DoctorProbes;
  /** For --jobs. The settings must have been checked. */
  startSimulationThread<Work extends ThreadWork>(work: Work, config: RunConfig): SimulationThread<Work>;
  verify: VerifyProviders;
}

/** The environment of a command, besides its arguments. */
export interface CommandContext {
  deps: CliDeps;
  /** Aborts at the first Ctrl-C. */
  signal: AbortSignal;
}

/** Exit codes. `unread` is the shell's code for a program ended by SIGPIPE. */
export const EXIT = { good: 0, failed: 1, usage: 2, assertion: 3, interrupted: 130, unread: 141 } as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];
