/** A redis-server (or valkey-server) for a test, if one is installed; .ci/install-redis installs one. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createServer } from 'node:net';

function installed(): string | null {
  for (const name of ['redis-server', 'valkey-server']) {
    try {
      execFileSync(name, ['--version'], { stdio: 'ignore' });
      return name;
    } catch {
      // Try the next one.
    }
  }
  return null;
}

/** The server program's name; null if none is installed. */
export const REDIS = installed();
/** Appended to the titles of tests that are skipped without a server. */
export const WITHOUT_REDIS = REDIS === null ? ' (skipped: no redis-server is installed)' : '';

export class RedisServer {
  readonly url: string;
  readonly #port: number;
  readonly #options: readonly string[];
  #process: ChildProcess | null = null;

  private constructor(port: number, options: readonly string[]) {
    this.#port = port;
    this.#options = options;
    this.url = `redis://127.0.0.1:${port}`;
  }

  /** Starts a server on a free port that keeps nothing on disk. */
  static async start(...options: string[]): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), options);
    await server.start();
    return server;
  }

  /** Starts the server on its port, empty. */
  async start(): Promise<void> {
    const fixed = ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', '/tmp'];
    const args = ['--port', String(this.#port), ...fixed, ...this.#options];
    const started = spawn(REDIS!, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#process = started;
    await new Promise<void>((resolve, reject) => {
      let said = '';
      started.once('exit', (code) => reject(new Error(`${REDIS} ended with ${code}: ${said}`)));
      started.stdout!.on('data', (text: Buffer) => {
        said += text;
        if (said.includes('Ready to accept connections')) resolve();
      });
    });
  }

  /** SIGSTOP: its sockets stay open, but it does not answer. */
  hang(): void {
    this.#process!.kill('SIGSTOP');
  }

  goOn(): void {
    this.#process!.kill('SIGCONT');
  }

  /** Resolves when the process has exited. */
  async kill(): Promise<void> {
    const ending = this.#process;
    this.#process = null;
    if (!ending || ending.exitCode !== null) return;
    const gone = new Promise((resolve) => ending.once('exit', resolve));
    ending.kill('SIGKILL');
    await gone;
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
