/** What `kvferry doctor` prints, and its advice. */
import type pc from 'picocolors';
import type { ClusterInfo } from '../../fleet/types.ts';
import { formatBytes, formatCount, formatGbps, formatMb, formatSeconds } from '../../measure/format.ts';
import { defaultChoice, describeChoice, type GemmTuning } from '../../model/kernels/gemm-forms.ts';
import { adapterForm } from '../../model/kernels/kernel-variants.ts';
import { left, right } from '../../report/document.ts';
import { adapterName } from '../../report/verdict.ts';
import { sum, sumOf } from '../../sum.ts';
import { WIDTH, withoutThreads, wrap } from '../output/format.ts';
import { plainStyle, renderTable } from '../output/table.ts';
import type { AdapterFinding, CopyRateFinding } from './doctor-types.ts';

export interface DoctorFindings {
  version: string;
  /** What --adapter asked for. */
  choice: string;
  model: string;
  adapters: readonly AdapterFinding[];
  /** The graphics API through which Dawn finds GPUs: 'vulkan', 'metal' or 'd3d12'. */
  backend: string;
  /** The kernel has an NVIDIA driver. */
  nvidia: boolean;
  /** null if no engine could start; `error` says why. */
  info: ClusterInfo | null;
  copyRates: readonly CopyRateFinding[] | null;
  error: Error | null;
}

const NVIDIA_WITHOUT_VULKAN =
  "This machine has an NVIDIA card, but Vulkan does not find it, so results will be the CPU's. Install the libraries that its driver needs (Debian, Ubuntu: libvulkan1 libegl1 libgl1 libgles2). In a container, provide the driver's graphics libraries (NVIDIA_DRIVER_CAPABILITIES=all). If nvidia_icd.json is in none of the Vulkan loader's folders, name it in VK_DRIVER_FILES.";

/** What follows from it and what to do, by backend. */
const WITHOUT_GPU: Readonly<Record<string, string>> = {
  vulkan:
    ", so results will be the CPU's. To use a GPU, install its Vulkan driver; vulkaninfo should list it.",
  metal: ', and kvferry needs one on macOS. A virtual machine may have none that supports Metal.',
  d3d12: ". To use one, install its maker's driver; dxdiag should list it with Direct3D 12.",
};

type Colors = ReturnType<typeof pc.createColors>;

/** Advice as sentences, most important first; empty if nothing is missing. */
export function advise(findings: DoctorFindings): string[] {
  const { adapters, backend, nvidia, info, error, choice } = findings;
  const found = (driver: string): boolean => adapters.some((a) => a.driver === driver && a.adapter !== null);
  const gpu = adapters.some(({ adapter }) => adapter && !adapter.software);
  const advice: string[] = [];
  if (!info) {
    advice.push(`No engine can start: ${error?.message ?? 'the reason is unknown'}.`);
    if (choice !== 'auto') advice.push('Leave --adapter out to use any adapter that works.');
  }
  if (!gpu) advice.push(nvidia ? NVIDIA_WITHOUT_VULKAN : `No GPU was found${WITHOUT_GPU[backend] ?? ''}`);
  if (gpu || backend !== 'vulkan') return advice;
  if (!found('lavapipe')) {
    advice.push(
      'lavapipe is 3 to 4 times faster than SwiftShader: install Mesa 25 or newer (Debian 12: mesa-vulkan-drivers from bookworm-backports; its own Mesa 22 is not supported).',
    );
  }
  if (!found('swiftshader')) {
    advice.push('On Linux x64, npm installs SwiftShader: if this is such a machine, run npm ci again.');
  }
  return advice;
}

export function doctorLines(findings: DoctorFindings, advice: readonly string[], c: Colors): string[] {
  const { info, copyRates } = findings;
  const title = (text: string): string[] => ['', c.bold(text)];
  return [
    c.bold(`kvferry ${findings.version} doctor`),
    ...title('Adapters'),
    ...findings.adapters.flatMap((adapter) => adapterLines(adapter, c)),
    ...(info ? engineLines(info, title) : []),
    ...(copyRates ? [...title('Copy rates, through shared memory'), ...copyRateLines(copyRates)] : []),
    ...(info ? [...title('Memory'), ...memoryLines(info)] : []),
    ...title(advice.length === 0 ? 'Nothing is missing' : 'Advice'),
    ...advice.flatMap((line) => wrap(`- ${line}`, WIDTH, '  ')),
    '',
    ...(info
      ? wrap(`Engines start on ${adapterName(info)}: kvferry run works on this machine.`, WIDTH).map(c.green)
      : [
          c.red(
            `No engine can start ${findings.choice === 'auto' ? 'on this machine' : `with --adapter ${findings.choice}`}.`,
          ),
        ]),
  ].flatMap((line) => line.split('\n'));
}

function adapterLines({ driver, adapter, error }: AdapterFinding, c: Colors): string[] {
  const name = driver.padEnd(12);
  if (!adapter) return wrap(`${name} ${c.dim('none:')} ${error ?? 'not found'}`, WIDTH, ' '.repeat(13));
  const lanes =
    adapter.subgroupMinSize === null
      ? 'no subgroups'
      : `subgroups of ${[...new Set([adapter.subgroupMinSize, adapter.subgroupMaxSize])].join(' to ')} lanes`;
  return [
    ...wrap(`${name} ${adapter.name} (${adapter.software ? 'software' : 'GPU'})`, WIDTH, ' '.repeat(13)),
    ...wrap(
      `             ${lanes}, buffers to ${formatBytes(adapter.maxBufferSize)}, bindings to ${formatBytes(adapter.maxStorageBufferBindingSize)}`.trimStart(),
      WIDTH - 13,
    ).map((line) => `             ${line}`),
  ];
}

function engineLines(
  { adapter, engines, gemm = null }: ClusterInfo,
  title: (text: string) => string[],
): string[] {
  const features = ['shader-f16', 'subgroups', 'timestamp-query'].map(
    (feature) => `${feature} ${adapter.features.includes(feature) ? 'yes' : 'no'}`,
  );
  const { limits } = adapter;
  const lanes = adapter.subgroupSize;
  const software =
    lanes === null ? 'portable variants: no fixed subgroup size' : `subgroup variants: ${lanes} lanes`;
  const kernels = adapter.software ? software : 'variants for GPUs';
  const compile = engines.map(
    ({ engineId, pipelines, compileMs }) => `${engineId} ${pipelines} in ${formatSeconds(compileMs)}`,
  );
  return [
    ...title('Chosen'),
    ...wrap(`adapter   ${adapterName({ adapter })}`, WIDTH, ' '.repeat(10)),
    ...wrap(`features  ${features.join(', ')}`, WIDTH, ' '.repeat(10)),
    `limits    buffer ${formatBytes(limits.maxBufferSize)}, storage binding ${formatBytes(limits.maxStorageBufferBindingSize)},`,
    `          workgroup ${formatCount(limits.maxComputeInvocationsPerWorkgroup)} threads, ${formatBytes(limits.maxComputeWorkgroupStorageSize)}`,
    `kernels   ${kernels}`,
    ...wrap(`matrices  ${matrixForms(adapter, gemm)}`, WIDTH, ' '.repeat(10)),
    ...wrap(`products  ${products(adapter, gemm)}`, WIDTH, ' '.repeat(10)),
    ...wrap(`compiled  ${compile.join(', ')}`, WIDTH, ' '.repeat(10)),
    ...wrap(`driver    ${driverThreads(engines)}`, WIDTH, ' '.repeat(10)),
  ];
}

function driverThreads(engines: ClusterInfo['engines']): string {
  const without = engines.filter((engine) => !engine.driverThreads).map(({ engineId }) => engineId);
  return without.length === 0
    ? 'uses its own threads in every engine, if it has any'
    : withoutThreads(without);
}

const SOURCES = { measured: 'measured just now', cached: 'measured earlier (cached)' } as const;

/** The matrix kernel variant by number of rows, and how it was chosen. */
function matrixForms(adapter: ClusterInfo['adapter'], gemm: GemmTuning | null): string {
  const choice = gemm?.choice ?? defaultChoice(adapterForm(adapter));
  const source = gemm ? SOURCES[gemm.source] : 'not measured here (--autotune on measures)';
  return `${describeChoice(choice)}; ${source}`;
}

/** The precision of matrix products, with the measured speed if known. */
function products({ arithmetic = 'f32' }: ClusterInfo['adapter'], gemm: GemmTuning | null): string {
  const other = arithmetic === 'f16' ? ': logits differ from f32' : '';
  const why = gemm?.f16Speed === undefined ? '' : `; f16 ${gemm.f16Speed.toFixed(2)} times as fast as f32`;
  return `in ${arithmetic}, sums in f32${other}${why}`;
}

function copyRateLines(rates: readonly CopyRateFinding[]): string[] {
  const rows = rates.map(({ direction, bytes, gbps, byHandGbps }) => [
    direction,
    formatMb(bytes),
    formatGbps(gbps),
    formatGbps(byHandGbps),
  ]);
  const columns = [left('direction'), ...right('MB', 'GB/s', 'without overlap, GB/s')];
  return renderTable(columns, rows, plainStyle);
}

function memoryLines({ engines, model }: ClusterInfo): string[] {
  const totalOf = (memory: Readonly<Record<string, number>>): number => sum(Object.values(memory));
  const all = sumOf(engines, ({ memory }) => totalOf(memory));
  const lines = engines.flatMap(({ engineId, memory, numBlocks }) => {
    const parts = Object.entries(memory).map(([what, bytes]) => `${what} ${formatBytes(bytes)}`);
    return wrap(
      `${engineId.padEnd(9)} ${formatBytes(totalOf(memory))}: ${parts.join(', ')} (${formatCount(numBlocks)} blocks of ${formatBytes(model.blockBytes)})`,
      WIDTH,
      ' '.repeat(10),
    );
  });
  return [...lines, `${'all'.padEnd(9)} ${formatBytes(all)}`];
}
