/** Checks the sampling kernel against float64: each row's token, and each row's digest. */
import { packUniform } from '../../gpu/uniforms.ts';
import { chosenToken } from '../../model/pass/sample-on-host.ts';
import { packSamples, type SampleRequest, uniformDraw } from '../../model/pass/sampling.ts';
import { pad4 } from '../../model/types.ts';
import { mix } from '../../model/weights/mix.ts';
import type { Finding, KernelCheck, RandomNumbers } from './kernel-cases.ts';

/** A draw or a top-p this close to a boundary may fall on either side of it in single precision. */
const ROUNDING = 1e-5;
const ROWS = 12;

const WAYS = [
  { what: 'greedy', temperature: 0, topK: 0, topP: 1 },
  { what: 'temperature 1', temperature: 1, topK: 0, topP: 1 },
  { what: 'top-k 5', temperature: 1.5, topK: 5, topP: 1 },
  { what: 'top-p 0.6', temperature: 1, topK: 0, topP: 0.6 },
  { what: 'top-k 20, top-p 0.9', temperature: 0.7, topK: 20, topP: 0.9 },
] as const;

export const sample: KernelCheck = {
  name: 'sample',
  async measure(bench, shape, random) {
    const kernel = await bench.library.get('sample', { WORKGROUP: bench.forms[0]!.sampling });
    const findings: Finding[] = [];
    const { name, architecture } = shape;
    const { vocabSize } = architecture;
    const stride = pad4(vocabSize);
    for (const { what, ...way } of WAYS) {
      const logits = Array.from({ length: ROWS }, () => rowOfLogits(vocabSize, random));
      const requests = logits.map((row, i) => requestOf(way, i, row));
      // Padding beyond the vocabulary would win if it were read.
      const all = new Float32Array(ROWS * stride).fill(1000);
      logits.forEach((row, i) => {
        all.set(row, i * stride);
      });
      const { rows, forbidden } = packSamples(requests);
      const [out] = await bench.run(
        kernel,
        [
          all,
          rows,
          forbidden,
          new Uint32Array(4 * ROWS),
          packUniform('sample', { vocab: vocabSize, stride }),
        ],
        [ROWS, 1],
      );
      const words = new Uint32Array(out!);
      const wrong = logits.filter((row, i) => {
        const [token, low, high] = words.subarray(4 * i, 4 * i + 3);
        const digest = digestOf(row);
        const right = possibleTokens(row, requests[i]!).has(token!);
        return !right || low !== digest.low || high !== digest.high;
      });
      findings.push({ what: `wrong rows, ${what}, ${name}`, error: wrong.length, bound: 0 });
    }
    return findings;
  },
};

/** Multiples of 1/8, so that many are equal. */
const rowOfLogits = (vocabSize: number, random: RandomNumbers): Float32Array =>
  random.values(vocabSize).map((value) => Math.round(40 * value) / 8);

/** In every other row, the best token is forbidden. */
function requestOf(
  way: { temperature: number; topK: number; topP: number },
  index: number,
  logits: Float32Array,
): SampleRequest {
  return {
    params: { ...way, maxTokens: 1, minTokens: 0, seed: 12_345_678_901, stopTokenIds: [], ignoreEos: false },
    outputIndex: index,
    forbiddenTokenIds: index % 2 ? [logits.indexOf(Math.max(...logits)), 3] : [],
  };
}

function possibleTokens(logits: Float32Array, request: SampleRequest): Set<number> {
  const near = (value: number): number[] => [value - ROUNDING, value, value + ROUNDING];
  const draw = uniformDraw(request.params.seed, request.outputIndex);
  const { topP } = request.params;
  const allowed = [...logits.keys()].filter((id) => !request.forbiddenTokenIds.includes(id));
  const tokens = (topP < 1 ? near(topP) : [topP]).flatMap((p) =>
    near(draw).map((d) => chosenToken(logits, allowed, { ...request.params, topP: p }, d)),
  );
  return new Set(tokens);
}

function digestOf(row: Float32Array): { low: number; high: number } {
  const bits = new Uint32Array(row.buffer, row.byteOffset, row.length);
  let low = 0;
  let high = 0;
  bits.forEach((word, id) => {
    const hash = mix(word ^ mix(id));
    low = (low + hash) >>> 0;
    high = (high + mix((hash + 0x9e3779b9) >>> 0)) >>> 0;
  });
  return { low, high };
}
