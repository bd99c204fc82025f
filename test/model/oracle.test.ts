import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { loadWeights } from '../../src/model/load.ts';
import { compareFixture, type FixtureRun } from '../../src/model/oracle/fixture.ts';
import { loadOracleWeights, Oracle } from '../../src/model/oracle/oracle.ts';
import { ropeFrequencies } from '../../src/model/pass/rope.ts';
import { SeededWeights } from '../../src/model/weights/seeded-weights.ts';
import { directorySource } from '../../src/platform/node/files.ts';
import { directory, oddConfig, oddTensors, safetensors, type TestTensors } from './checkpoint.ts';
import { generateGreedy, oracleFixtureRun } from './oracle-runs.ts';

const fixture = (name: string) => directorySource(`test/fixtures/hf/${name}`);

async function runFixture(name: string, change: (run: FixtureRun) => void = () => {}) {
  const files = fixture(name);
  const weights = await loadWeights({ name, files, dtype: 'f32', seed: 0 });
  const oracle = await Oracle.load(weights, { kvDtype: 'f32' });
  return compareFixture(files, async (ids) => {
    const run = oracleFixtureRun(oracle, ids);
    change(run);
    return run;
  });
}

describe('the oracle against Hugging Face', () => {
  it.each([
    ...['llama-gqa-tied', 'llama-mha-untied', 'qwen2-qkv-bias', 'qwen3-qk-norm'],
    ...['gemma3-hybrid', 'mistral-sliding', 'qwen3-hybrid-window'],
  ])('matches logits, KV and greedy tokens of %s', async (name) => {
    const result = await runFixture(name);
    expect(result).toMatchObject({
      name,
      promptTokens: 90,
      greedyTokens: 40,
      greedyDifference: null,
      passed: true,
    });
    expect(result.maxLogitDifference).toBeLessThan(1e-5);
    expect(result.maxKvDifference).toBeLessThan(1e-5);
    expect(result.maxLogitDifference).toBeGreaterThan(0);
  });

  it('fails the comparison on one wrong logit, key, missing value or greedy token', async () => {
    const name = 'llama-gqa-tied';
    const logit = await runFixture(name, ({ logits }) => {
      logits[17]![5]! += 0.01;
    });
    expect([logit.passed, logit.maxLogitDifference.toFixed(4)]).toEqual([false, '0.0100']);
    const key = await runFixture(name, ({ keys }) => {
      // Second head, position 0.
      keys[2]![129 * 16]! -= 0.5;
    });
    expect([key.passed, key.maxKvDifference.toFixed(3), key.maxLogitDifference < 1e-5]).toEqual([
      false,
      '0.500',
      true,
    ]);
    const value = await runFixture(name, ({ values }) => {
      values[0]![3] = Number.NaN;
    });
    expect([value.passed, value.maxKvDifference]).toEqual([false, Number.POSITIVE_INFINITY]);
    // A layer with a window keeps the 31 tokens before the prompt's end.
    const windowed = await runFixture('gemma3-hybrid', ({ keys }) => {
      keys[0]![59 * 32]! -= 0.5;
    });
    expect([windowed.passed, windowed.maxKvDifference.toFixed(3)]).toEqual([false, '0.500']);
    const token = await runFixture(name, ({ logits }) => {
      logits[100]![9] = 1e9;
    });
    expect(token).toMatchObject({ passed: false, greedyDifference: { index: 11, found: 9 } });
  });

  it('rejects an incomplete or inconsistent fixture folder with the reason', async () => {
    const never = async () => expect.fail('nothing to run');
    const files = directory(oddConfig, oddTensors());
    await expect(compareFixture(files, never)).rejects.toThrow('memory/odd has no expected.json');
    const expected = { prompt_token_ids: [1, 2], greedy_token_ids: [3] };
    const more = (json: object) => ({ 'expected.json': JSON.stringify(json) });
    const incomplete = directory(oddConfig, oddTensors(), more(expected));
    await expect(compareFixture(incomplete, never)).rejects.toThrow(
      'memory/odd/expected.safetensors does not exist',
    );
    const outside = directory(oddConfig, oddTensors(), more({ ...expected, greedy_token_ids: [7] }));
    await expect(compareFixture(outside, never)).rejects.toThrow('token id 7 is outside the vocabulary of 7');
    const misshapen = directory(oddConfig, oddTensors(), {
      ...more(expected),
      'expected.safetensors': safetensors({ logits: { shape: [1, 7], values: new Array(7).fill(0) } }),
    });
    const run = async () => ({ logits: [new Float32Array(7), new Float32Array(7)], keys: [], values: [] });
    await expect(compareFixture(misshapen, run)).rejects.toThrow(
      'tensor logits has shape [1, 7], wanted [2, 7]',
    );
  });
});

describe('the recall model', () => {
  interface Turn {
    prompt_token_ids: number[];
    answer_token_ids: number[];
    smallest_margin: number;
  }
  const { conversations } = JSON.parse(readFileSync('models/recall/expected.json', 'utf8')) as {
    conversations: { name: string; turns: Turn[] }[];
  };

  /** If the two best logits are closer than this, a different order of sums may choose the other token. */
  const isSure = (turn: Turn) => turn.smallest_margin >= 0.05;

  it.each(conversations)('run by the oracle answers as in Hugging Face: $name', async ({ turns }) => {
    const files = directorySource('models/recall');
    const weights = await loadOracleWeights(
      await loadWeights({ name: 'recall', files, dtype: 'f16', seed: 0 }),
    );
    expect(turns.some(isSure)).toBe(true);
    // One oracle for the whole conversation: every turn continues on the KV of the last.
    const oracle = new Oracle(weights, { kvDtype: 'f32' });
    for (const turn of turns) {
      const { prompt_token_ids: prompt, answer_token_ids: wanted } = turn;
      const answer = generateGreedy(oracle, prompt.slice(oracle.length), wanted.length + 1, [0]);
      if (isSure(turn)) expect(answer).toEqual(wanted);
      else oracle.forward(wanted.slice(0, -1), { startPosition: prompt.length });
    }
  });
});

describe('the oracle', () => {
  const tokens = Array.from({ length: 33 }, (_, i) => (i * 97 + 5) % 512);
  const nano = loadOracleWeights(new SeededWeights(presetArchitecture('nano'), 0, 'f16'));

  it.each(['f16', 'f32', 'f64'] as const)(
    'gives the same logits and KV in one call and in many (%s KV)',
    async (kvDtype) => {
      const whole = new Oracle(await nano, { kvDtype });
      const pieces = new Oracle(await nano, { kvDtype });
      const rows = whole.forward(tokens, { logits: 'all' });
      const found = [
        [0, 7],
        [7, 8],
        [8, 13],
        [13, 33],
      ].flatMap(([from, to]) => pieces.forward(tokens.slice(from, to), { logits: 'all' }));
      expect(found).toEqual(rows);
      expect(pieces.keys(1)).toEqual(whole.keys(1));
      expect(pieces.values(1)).toEqual(whole.values(1));
      expect(pieces.forward(tokens.slice(20), { startPosition: 20 })).toEqual(rows.slice(-1));
    },
  );

  it('rounds KV to its dtype, which changes the logits slightly', async () => {
    const [f64, f32, f16] = await Promise.all(
      (['f64', 'f32', 'f16'] as const).map(async (kvDtype) => {
        const oracle = new Oracle(await nano, { kvDtype });
        const [logits] = oracle.forward(tokens);
        return { logits: logits!, values: oracle.values(0)[0]! };
      }),
    );
    expect([...f32!.values]).toEqual([...f64!.values].map(Math.fround));
    expect(f16!.values.every((value) => Number.isInteger(value * 2 ** 24))).toBe(true);
    const distance = (a: Float64Array, b: Float64Array) => Math.max(...a.map((x, i) => Math.abs(x - b[i]!)));
    expect(distance(f32!.logits, f64!.logits)).toBeLessThan(1e-4);
    expect(distance(f16!.logits, f64!.logits)).toBeLessThan(0.1);
    expect(distance(f16!.logits, f64!.logits)).toBeGreaterThan(1e-5);
  });

  it('depends on the order of tokens, and not on later ones', async () => {
    const run = async (ids: readonly number[]) =>
      new Oracle(await nano, { kvDtype: 'f64' }).forward(ids, { logits: 'all' });
    const rows = await run(tokens);
    const later = await run(tokens.with(32, 400));
    expect(later.slice(0, 32)).toEqual(rows.slice(0, 32));
    expect(later[32]).not.toEqual(rows[32]);
    const swapped = await run(tokens.with(3, tokens[4]!).with(4, tokens[3]!));
    expect(swapped[32]).not.toEqual(rows[32]);
  });

  it('adds the biases of o and of the MLP at the right places', async () => {
    // With every matrix except down zero, each bias is visible: x = e + ob + (silu(g) * u) W + db.
    const layer = 'model.layers.0';
    const filled = (shape: number[], of: (i: number) => number) => ({
      shape,
      values: Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => of(i)),
    });
    const base = oddTensors();
    const zeros = Object.fromEntries(
      Object.entries(base)
        .filter(([name]) => name.includes('_proj') && !name.includes('down_proj'))
        .map(([name, { shape }]) => [name, filled(shape, () => 0)]),
    );
    const biases = {
      [`${layer}.self_attn.q_proj.bias`]: filled([6], () => 0),
      [`${layer}.self_attn.k_proj.bias`]: filled([2], () => 0),
      [`${layer}.self_attn.v_proj.bias`]: filled([2], () => 0),
      [`${layer}.self_attn.o_proj.bias`]: filled([6], (i) => i / 16),
      [`${layer}.mlp.gate_proj.bias`]: filled([5], (i) => 1 - i / 4),
      [`${layer}.mlp.up_proj.bias`]: filled([5], (i) => 2 - i),
      [`${layer}.mlp.down_proj.bias`]: filled([6], (i) => (i - 3) / 8),
    };
    const tensors: TestTensors = { ...base, ...zeros, ...biases };
    const files = directory({ ...oddConfig, attention_bias: true, mlp_bias: true }, tensors);
    const oracle = await Oracle.load(await loadWeights({ name: 'odd', files, dtype: 'f32', seed: 0 }), {
      kvDtype: 'f64',
    });
    const [logits] = oracle.forward([4]);
    const E = tensors['model.embed_tokens.weight']!.values;
    const W = tensors[`${layer}.mlp.down_proj.weight`]!.values;
    const norm = tensors['model.norm.weight']!.values;
    const six = [0, 1, 2, 3, 4, 5];
    const activated = [0, 1, 2, 3, 4].map((i) => {
      const gate = 1 - i / 4;
      return (gate / (1 + Math.exp(-gate))) * (2 - i);
    });
    const x = six.map((n) => {
      const mlp = activated.reduce((sum, a, k) => sum + a * W[n * 5 + k]!, 0);
      return E[4 * 6 + n]! + n / 16 + mlp + (n - 3) / 8;
    });
    const scale = 1 / Math.sqrt(x.reduce((sum, v) => sum + v * v, 0) / 6 + 1e-5);
    for (let token = 0; token < 7; token++) {
      const wanted = six.reduce((sum, n) => sum + x[n]! * scale * norm[n]! * E[token * 6 + n]!, 0);
      expect(logits![token]).toBeCloseTo(wanted, 10);
    }
  });

  it('refuses no tokens, unknown tokens and a start beyond its KV', async () => {
    const oracle = new Oracle(await nano, { kvDtype: 'f64' });
    expect(() => oracle.forward([])).toThrow('no tokens');
    expect(() => oracle.forward([512])).toThrow('token id 512 is outside the vocabulary of 512');
    expect(() => oracle.forward([1], { startPosition: 1 })).toThrow('it cannot start at 1');
  });
});

describe('rope frequencies', () => {
  it('fall from 1 in equal ratios', () => {
    const frequencies = ropeFrequencies({ headDim: 8, ropeTheta: 10_000, ropeScaling: null });
    expect(Array.from(frequencies, (value) => Number(value.toFixed(12)))).toEqual([1, 0.1, 0.01, 0.001]);
  });

  it('are divided by a linear factor', () => {
    const linear = { headDim: 4, ropeTheta: 100, ropeScaling: { type: 'linear', factor: 8 } } as const;
    expect([...ropeFrequencies(linear)]).toEqual([1 / 8, 0.1 / 8]);
  });

  it('are scaled as in Llama 3.2', () => {
    const frequencies = ropeFrequencies(presetArchitecture('llama-3.2-1b'));
    // From Hugging Face's formula, in NumPy: unchanged, blended (15, 16), divided by 32.
    const wanted = {
      0: 1,
      5: 0.12868737343265052,
      12: 0.0072926647372171085,
      14: 0.0032114459947525913,
      15: 0.001290547928209264,
      16: 0.00042955679655936815,
      18: 1.9461638184831125e-5,
      31: 9.418306725434909e-8,
    };
    for (const [i, value] of Object.entries(wanted)) {
      expect(Math.abs(frequencies[Number(i)]! / value - 1)).toBeLessThan(1e-12);
    }
  });
});
