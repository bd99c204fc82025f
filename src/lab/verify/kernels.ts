/** Check (a): each kernel alone, with random inputs, against float64, for the user's model's shapes and odd ones. */
import { unmeasured } from '../../config/arithmetic.ts';
import { plural } from '../../measure/format.ts';
import type { AdapterForm } from '../../model/kernels/kernel-variants.ts';
import type { Platform } from '../../platform/types.ts';
import { attention } from './attention-kernel.ts';
import { fused } from './fused-kernels.ts';
import { type KernelBench, withBench } from './kernel-bench.ts';
import { type Finding, type KernelCheck, kernelShapes, RandomNumbers } from './kernel-cases.ts';
import { rope } from './rope-kernel.ts';
import { activation, embedding, gemm, rms } from './row-kernels.ts';
import { sample } from './sample-kernel.ts';
import type { CheckProvider, CheckResult } from './types.ts';

export function kernelChecks(platform: Platform): CheckProvider {
  return async ({ config, backend }) => {
    const shapes = kernelShapes(await backend.architecture(config.model), config.blockSize);
    const arithmetic = unmeasured(config.arithmetic);
    const { signal: never } = new AbortController();
    const forms = await withBench(platform, arithmetic, never, async (bench) => bench.forms);
    return checksFor(forms).map(({ name, measure }) => ({
      group: 'a',
      name,
      run: (_, signal) =>
        withBench(platform, arithmetic, signal, async (bench) => {
          const random = new RandomNumbers(config.seed);
          const findings: Finding[] = [];
          for (const shape of shapes) findings.push(...(await measure(bench, shape, random)));
          return judge(findings);
        }),
    }));
  };
}

/**
 * Portable kernels on every adapter, except fused ones, which take long to compile. Other kernels only where the runner uses
 * them.
 */
export function checksFor(forms: KernelBench['forms']): KernelCheck[] {
  const [chosen] = forms;
  return [
    embedding,
    rms,
    ...forms.flatMap((form) =>
      form.subgroup === null
        ? [gemm('gemm_portable', 'gemmPortable', form), gemm('gemm_tiled', 'gemmTiled', form)]
        : [gemm('gemm', 'gemm', form), gemm('gemm_wide', 'gemmWide', form)],
    ),
    ...(chosen.waits
      ? [gemm('gemm_split', 'gemmSplit', chosen), gemm('gemm_blocked', 'gemmBlocked', chosen)]
      : []),
    rope,
    ...(chosen.waits ? [attention('attention_blocked', 'attentionBlocked', chosen)] : forms.map(attentionOf)),
    activation,
    fused('gemm, fused', chosen),
    sample,
  ];
}

const attentionOf = (form: AdapterForm): KernelCheck =>
  form.subgroup === null
    ? attention('attention_portable', 'attentionPortable', form)
    : attention('attention', 'attention', form);

function judge(findings: readonly Finding[]): CheckResult {
  if (findings.length === 0) return { ok: false, detail: 'there was nothing to compare' };
  const share = ({ error, bound }: Finding): number => (error === 0 ? 0 : error / bound);
  const worst = findings.reduce((a, b) => (share(b) > share(a) ? b : a));
  const ok = findings.every(({ error, bound }) => error <= bound);
  const shown = (value: number): string => (Number.isInteger(value) ? `${value}` : value.toExponential(1));
  return {
    ok,
    detail:
      worst.error === 0
        ? `${plural(findings.length, 'case')}, all exactly as in float64`
        : `${plural(findings.length, 'case')}, largest error ${shown(worst.error)} (at most ${shown(worst.bound)}): ${worst.what}`,
  };
}
