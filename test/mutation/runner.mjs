/**
 * A test runner for Stryker that holds a mutant against Vitest's tests in tens of milliseconds: tests and code are bundled
 * once, and a thread (tests.mjs) evaluates them anew for each mutant. For tests that need no more of Vitest than its runner
 * and `expect`.
 */
import module from 'node:module';
import { Worker } from 'node:worker_threads';
import { declareClassPlugin, PluginKind } from '@stryker-mutator/api/plugin';
import { DryRunStatus, toMutantRunResult } from '@stryker-mutator/api/test-runner';
import { build } from 'vite';

/** A thread is replaced after so many mutants, for what those left open in it. */
const MUTANTS_A_THREAD = 200;

/** In ms, beside some times what it took unchanged: how long a test may compute (a loop without an end), or wait for nothing. */
const MOST = { busy: 400, idle: 1_500, times: 5 };

/** Stryker lets a mutant be come by 100 times as often as in the dry run, which may take minutes: 5 times is enough. */
const FEWER_HITS = 1 / 20;

/** In ms, computing and waiting: a test that takes more is used only for what no quicker one reaches. */
const QUICK = 100;

/** What no mutant changes and keeps no state is evaluated once a thread. */
const UNCHANGED = { name: 'unchanged', test: /src\/(?:config|platform|errors)/ };

const bundle = async (testFiles) => {
  const { output } = await build({
    configFile: false,
    logLevel: 'warn',
    build: {
      ssr: true,
      write: false,
      minify: false,
      target: 'node20',
      rollupOptions: {
        input: testFiles,
        output: { format: 'cjs', exports: 'named', advancedChunks: { groups: [UNCHANGED] } },
      },
    },
  });
  const chunks = output.filter(({ type }) => type === 'chunk');
  const own = new Set(chunks.map(({ fileName }) => fileName));
  const packages = new Set(chunks.flatMap(({ imports, dynamicImports }) => [...imports, ...dynamicImports]));
  return {
    chunks: chunks.map(({ fileName, code, facadeModuleId, name }) => ({
      fileName,
      code,
      facadeModuleId,
      unchanged: name === UNCHANGED.name,
    })),
    packages: [...packages].filter((name) => !own.has(name) && !module.isBuiltin(name)),
  };
};

class InProcessRunner {
  static inject = ['options'];
  #options;
  #bundle;
  #thread = null;
  #runs = 0;
  /** Of the dry run, by test id. */
  #took = new Map();

  constructor(options) {
    this.#options = options;
  }

  capabilities() {
    return { reloadEnvironment: true };
  }

  async init() {
    this.#bundle = await bundle(this.#options.testFiles);
  }

  async dryRun() {
    const { tests, coverage, took } = await this.#run({});
    this.#took = took;
    await this.#endThread();
    dropSlow(coverage.perTest, took);
    return { status: DryRunStatus.Complete, tests, mutantCoverage: coverage };
  }

  async mutantRun({ activeMutant, testFilter, hitLimit, mutantActivation }) {
    const run = await this.#run({
      wanted: testFilter,
      hitLimit: hitLimit && Math.max(2_000, hitLimit * FEWER_HITS),
      mutant: activeMutant.id,
      early: mutantActivation === 'static',
    });
    if (run.endless || ++this.#runs % MUTANTS_A_THREAD === 0) await this.#endThread();
    const late = run.endless ?? run.overLimit;
    if (late) return toMutantRunResult({ status: DryRunStatus.Timeout, reason: late });
    return toMutantRunResult({ status: DryRunStatus.Complete, tests: run.tests });
  }

  async dispose() {
    await this.#endThread();
  }

  async #endThread() {
    await this.#thread?.terminate();
    this.#thread = null;
  }

  /** @returns the tests that ran, and what they covered; or why the run was given up. */
  #run(what) {
    this.#thread ??= new Worker(new URL('tests.mjs', import.meta.url), {
      workerData: { ...this.#bundle, took: this.#took },
    });
    const thread = this.#thread;
    return new Promise((resolve, reject) => {
      let test = null;
      const watch = setInterval(() => {
        if (test && this.#isEndless(thread, test)) done({ endless: `${test.id} does not end` });
      }, 100);
      const heard = (message) => {
        if (message.begins === undefined) done(message);
        else test = { id: message.begins, ...spent(thread) };
      };
      const done = (run) => {
        clearInterval(watch);
        thread.off('message', heard);
        thread.off('error', reject);
        resolve(run);
      };
      thread.on('message', heard);
      thread.on('error', reject);
      thread.postMessage(what);
    });
  }

  #isEndless(thread, { id, busy, idle }) {
    if (this.#took.size === 0) return false;
    const took = this.#took.get(id) ?? { busy: 0, idle: 0 };
    const now = spent(thread);
    return (
      now.busy - busy > MOST.busy + MOST.times * took.busy ||
      now.idle - idle > MOST.idle + MOST.times * took.idle
    );
  }
}

const dropSlow = (perTest, took) => {
  const isSlow = (id) => took.get(id).busy + took.get(id).idle > QUICK;
  const reached = new Set(
    Object.entries(perTest).flatMap(([id, hits]) => (isSlow(id) ? [] : Object.keys(hits))),
  );
  for (const [id, hits] of Object.entries(perTest)) {
    if (isSlow(id))
      perTest[id] = Object.fromEntries(Object.entries(hits).filter(([mutant]) => !reached.has(mutant)));
  }
};

/** In ms, and whatever else the machine does: what this process computed, and how long the thread had nothing to do. */
const spent = (thread) => {
  const { user, system } = process.cpuUsage();
  return { busy: (user + system) / 1_000, idle: thread.performance.eventLoopUtilization().idle };
};

export const strykerPlugins = [declareClassPlugin(PluginKind.TestRunner, 'in-process', InProcessRunner)];
