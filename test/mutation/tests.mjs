/**
 * The thread of runner.mjs. Each run evaluates the modules anew, with a namespace of its own for Stryker's switches: nothing
 * is left of the mutant before, and what that left running counts and acts there.
 */
import module from 'node:module';
import path from 'node:path';
import vm from 'node:vm';
import { parentPort, workerData } from 'node:worker_threads';
import { TestStatus } from '@stryker-mutator/api/test-runner';
import { startTests } from '@vitest/runner';

const NAMESPACE = '__stryker__';
const { chunks, packages: names, took } = workerData;
const evaluate = new Map(
  chunks.map(({ fileName, code }) => [
    fileName,
    vm.runInThisContext(module.wrap(code), { filename: path.resolve(fileName) }),
  ]),
);
const entries = new Map(chunks.flatMap(({ fileName, facadeModuleId: id }) => (id ? [[id, fileName]] : [])));
const packages = new Map();
for (const name of names) packages.set(name, await import(name));

// Read by expect.poll; nothing else of a Vitest worker is used.
globalThis.__vitest_worker__ ??= { config: { expect: {}, snapshotOptions: {} } };
// Of the code before, mostly: a failed test says more.
process.on('unhandledRejection', () => {});
process.on('uncaughtException', () => {});

const CONFIG = {
  root: process.cwd(),
  name: '',
  setupFiles: [],
  sequence: { hooks: 'stack', setupFiles: 'list', shuffle: false, concurrent: false },
  maxConcurrency: 1,
  testTimeout: 600_000,
  hookTimeout: 600_000,
  retry: 0,
  passWithNoTests: true,
  allowOnly: true,
  includeTaskLocation: false,
  tags: [],
  diffOptions: {},
};

const unchanged = new Map();
const isUnchanged = new Set(chunks.filter((chunk) => chunk.unchanged).map(({ fileName }) => fileName));

/** @returns a function that gives a chunk's exports, evaluating what was not evaluated yet through it. */
const makeLoader = () => {
  const loaded = new Map(unchanged);
  const load = (fileName) => {
    const known = loaded.get(fileName);
    if (known) return known.exports;
    const made = { exports: {} };
    loaded.set(fileName, made);
    const require = (name) => {
      if (module.isBuiltin(name)) return process.getBuiltinModule(name);
      return packages.get(name) ?? load(path.posix.join(path.posix.dirname(fileName), name));
    };
    const filename = path.resolve(fileName);
    if (isUnchanged.has(fileName)) unchanged.set(fileName, made);
    evaluate.get(fileName).call(made.exports, made.exports, require, made, filename, path.dirname(filename));
    return made.exports;
  };
  return load;
};

const nameOf = (task) =>
  task.suite && task.suite !== task.file ? `${nameOf(task.suite)} ${task.name}` : task.name;
const idOf = (test) => `${test.file.filepath}#${nameOf(test)}`;
const fileOf = (id) => id.slice(0, id.indexOf('#'));

/** A suite none of whose tests is wanted does not run its hooks. @returns whether something of it runs. */
const skipEmpty = (task, wanted) => {
  if (task.type === 'test') return task.mode === 'run' && (!wanted || wanted.has(idOf(task)));
  const some = task.tasks.map((inner) => skipEmpty(inner, wanted)).some(Boolean);
  if (!some && !task.result) task.mode = 'skip';
  return some;
};

/** @returns Stryker's results of the tests that ran, and of a suite or file that failed by itself (a hook, an import). */
const resultsOf = (task) => {
  const inner = (task.tasks ?? []).flatMap(resultsOf);
  const { state, duration = 0, errors } = task.result ?? {};
  const failed = state === 'fail';
  if (task.type === 'suite' && !(failed && errors?.length)) return inner;
  if (task.type === 'test' && (state === undefined || state === 'skip')) return inner;
  const id = task === task.file ? `${task.filepath}#` : idOf(task);
  const name = id.slice(id.indexOf('#') + 1);
  const base = { id, name, timeSpentMs: duration, fileName: task.file.filepath };
  const result = failed
    ? { ...base, status: TestStatus.Failed, failureMessage: errors?.[0]?.message ?? '' }
    : { ...base, status: TestStatus.Success };
  return [...inner, result];
};

const quickestFirst = (files, wanted) => {
  const times = new Map(files.map((file) => [file, 0]));
  for (const [id, { busy, idle }] of took) {
    const file = fileOf(id);
    if (times.has(file) && (!wanted || wanted.has(id))) times.set(file, times.get(file) + busy + idle);
  }
  return files.toSorted((a, b) => times.get(a) - times.get(b));
};

const run = async ({ wanted: ids, hitLimit, mutant, early }) => {
  const wanted = ids && new Set(ids);
  const files = ids ? [...new Set(ids.map(fileOf))] : [...entries.keys()];
  const ns = { hitLimit, hitCount: mutant ? 0 : undefined };
  globalThis[NAMESPACE] = ns;
  const load = makeLoader();
  const tests = [];
  const tookNow = new Map();
  let before = spent();
  let failed = false;
  const runner = {
    config: CONFIG,
    importFile: (file) => load(entries.get(file)),
    onCollectStart: (file) => {
      ns.activeMutant = early ? mutant : undefined;
      parentPort.postMessage({ begins: `${file.filepath}#` });
    },
    onBeforeRunFiles: ([file]) => {
      ns.activeMutant = mutant;
      skipEmpty(file, wanted);
    },
    onBeforeRunTask: (test) => {
      const id = idOf(test);
      if (failed || (wanted && !wanted.has(id))) {
        test.mode = 'skip';
        return;
      }
      if (!mutant) ns.currentTestId = id;
      before = spent();
      parentPort.postMessage({ begins: id });
    },
    onAfterRunTask: (test) => {
      const now = spent();
      tookNow.set(idOf(test), { busy: now.busy - before.busy, idle: now.idle - before.idle });
      ns.currentTestId = undefined;
      failed ||= mutant !== undefined && test.result?.state === 'fail';
    },
  };
  for (const file of quickestFirst(files, wanted)) {
    const [collected] = await startTests([file], runner);
    tests.push(...resultsOf(collected));
    if (mutant && tests.some(({ status }) => status === TestStatus.Failed)) break;
  }
  const overLimit =
    hitLimit !== undefined && ns.hitCount > hitLimit ? 'the mutant was come by for ever' : undefined;
  return { tests, coverage: ns.mutantCoverage, overLimit, took: mutant ? undefined : tookNow };
};

const spent = () => {
  const { user, system } = process.cpuUsage();
  return { busy: (user + system) / 1_000, idle: performance.eventLoopUtilization().idle };
};

parentPort.on('message', async (what) => parentPort.postMessage(await run(what)));
