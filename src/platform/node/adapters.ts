/**
 * Finds this machine's adapters and chooses one for the process. Probing runs in child processes, because a process
 * cannot change its driver once selected. Results are cached on disk (cached-probes.ts).
 */
import type { ExecFileException } from 'node:child_process';
import { promisify } from 'node:util';
import { distance } from 'fastest-levenshtein';
import { AdapterError } from '../../errors.ts';
import { isLavapipe } from '../../gpu/adapter-name.ts';
import { oneAtATime } from '../../one-at-a-time.ts';
import { cachedProbe, cacheProbe, machineNow } from './cached-probes.ts';
import { type Driver, driverAbsence, driversNamed, type ProbedAdapter, selectDriver } from './drivers.ts';
import { bundled } from './paths.ts';

export type ProbeResult =
  | { driver: Driver; adapter: ProbedAdapter; error: null }
  | { driver: Driver; adapter: null; error: string };

/** Time limit of a probe. A driver takes a second or two on a busy machine. */
const PROBE_MS = 60_000;

/** Probes of the default adapter, by driver. */
const probes = new Map<Driver, Promise<ProbeResult>>();

/**
 * The adapter that Dawn finds with this driver. `name`: only an adapter whose name contains it. Never rejects: the
 * result holds the error.
 */
export function probeDriver(driver: Driver, name: string | null = null): Promise<ProbeResult> {
  if (name !== null) return probe(driver, name);
  const known = probes.get(driver) ?? probeUnlessKept(driver);
  probes.set(driver, known);
  return known;
}

async function probeUnlessKept(driver: Driver): Promise<ProbeResult> {
  const machine = machineNow();
  const adapter = cachedProbe(driver, machine);
  return adapter ? { driver, adapter, error: null } : probeAndKeep(driver, machine);
}

async function probeAndKeep(driver: Driver, machine: string | null): Promise<ProbeResult> {
  const result = await probe(driver, null);
  if (result.adapter) await cacheProbe(driver, machine, result.adapter);
  return result;
}

/** Probes in a child process. */
async function probe(driver: Driver, name: string | null): Promise<ProbeResult> {
  const absence = driverAbsence(driver);
  if (absence !== null) return { driver, adapter: null, error: absence };
  // Imported here because engine threads load this module too, and never probe.
  const { execFile } = await import('node:child_process');
  try {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [bundled('probe-child'), driver, name ?? ''],
      { timeout: PROBE_MS },
    );
    const line = stdout.trim().split('\n').at(-1) ?? '';
    const answer = JSON.parse(line) as { adapter: ProbedAdapter | null; error: string | null };
    if (answer.adapter) return { driver, adapter: answer.adapter, error: null };
    const [error = 'Dawn accepts no adapter of this driver'] = answer.error?.split('\n') ?? [];
    return { driver, adapter: null, error };
  } catch (error) {
    return { driver, adapter: null, error: `the probe failed: ${howProbeEnded(error as ExecFileException)}` };
  }
}

/** How the child ended. Drivers can kill it in several ways; a process limited to few threads may crash or hang. */
function howProbeEnded({ killed, signal, code, stderr, message }: ExecFileException): string {
  if (killed) return `it gave no answer within ${PROBE_MS / 1000} s`;
  if (signal) return `it was ended by ${signal}`;
  const said = stderr?.trim().split('\n').at(-1);
  return typeof code === 'number' && said ? said : message.split('\n')[0]!;
}

/** Probes every driver again, ignoring cached results. */
export async function probeAll(): Promise<ProbeResult[]> {
  const machine = machineNow();
  for (const driver of ['system', 'lavapipe', 'swiftshader'] as const)
    probes.set(driver, probeAndKeep(driver, machine));
  return Promise.all(probes.values());
}

let chosen: ProbedAdapter | null = null;
/** The `choice` it was chosen by. */
let chosenAs: string | null = null;
/** Concurrent calls could select two drivers. */
const inTurn = oneAtATime();

/** The adapter that useAdapter chose for this process; null before. */
export const adapterInUse = (): ProbedAdapter | null => chosen;

/**
 * Chooses the adapter for this process and selects its driver. 'auto' prefers a real GPU, then a lavapipe that Dawn
 * accepts, then SwiftShader. Any word other than 'auto', 'gpu', 'lavapipe' and 'swiftshader' is part of an adapter's
 * name. Throws AdapterError if none is found, or if the process already uses another adapter.
 */
export const useAdapter = (choice: string): Promise<ProbedAdapter> => inTurn(() => useNow(choice));

async function useNow(choice: string): Promise<ProbedAdapter> {
  if (chosen) {
    if (choice === chosenAs || isMeantBy(choice, chosen)) return chosen;
    throw new AdapterError(
      `this process uses ${chosen.name}, and a process cannot change its driver: start another process for the adapter ${choice}, or use auto`,
    );
  }
  const result = await choose(choice);
  if (!result.adapter) throw new AdapterError(explain(choice, result.error));
  if (choice !== 'auto' && !['gpu', 'lavapipe', 'swiftshader'].includes(choice)) {
    process.env.KVFERRY_DAWN_ADAPTER = choice;
  }
  await selectDriver(result.driver);
  chosen = result.adapter;
  chosenAs = choice;
  return chosen;
}

/** Compares without a probe: this process can find only its own driver's adapters. */
function isMeantBy(choice: string, { name, software }: ProbedAdapter): boolean {
  if (choice === 'auto') return true;
  if (choice === 'gpu') return !software;
  return name.toLowerCase().includes(choice.toLowerCase());
}

async function choose(choice: string): Promise<ProbeResult> {
  if (choice === 'lavapipe' || choice === 'swiftshader') return probeDriver(choice);
  if (choice === 'gpu') {
    const system = await probeDriver('system');
    if (system.adapter?.software) {
      return {
        driver: 'system',
        adapter: null,
        error: `only a software adapter was found (${system.adapter.name})`,
      };
    }
    return system;
  }
  if (choice !== 'auto') return probeDriver('system', choice);
  const system = await probeDriver('system');
  if (system.adapter && !system.adapter.software) return system;
  if (system.adapter && isLavapipe(system.adapter)) {
    if (driversNamed().length > 0) return system;
    // Naming lavapipe's manifest keeps the Vulkan loader from opening other drivers.
    if (driverAbsence('lavapipe') === null)
      return { driver: 'lavapipe', adapter: { ...system.adapter, driver: 'lavapipe' }, error: null };
  }
  const lavapipe = await probeDriver('lavapipe');
  if (lavapipe.adapter) return lavapipe;
  const swiftshader = await probeDriver('swiftshader');
  // Where there is no SwiftShader, the reason to give is the system's.
  const isLast = !system.adapter && driverAbsence('swiftshader') === null;
  return swiftshader.adapter || isLast ? swiftshader : system;
}

function explain(choice: string, error: string): string {
  const meant = ['auto', 'gpu', 'lavapipe', 'swiftshader'].find(
    (known) => known !== choice && distance(known, choice) <= 2,
  );
  const ways =
    meant !== undefined
      ? `did you mean --adapter ${meant}?`
      : choice === 'auto'
        ? 'run `kvferry doctor` to see what was tried'
        : "run `kvferry doctor` to see this machine's adapters, or use --adapter auto";
  return `no adapter for --adapter ${choice}: ${error}; ${ways}`;
}
