/** The tensors in a checkpoint of an architecture, by their Hugging Face names. */

import { sumOf } from '../../sum.ts';
import type { Architecture } from '../types.ts';

/** Names and required shapes; Linears as [outputs, inputs]. */
export function expectedTensors(architecture: Architecture): [name: string, shape: number[]][] {
  const { hiddenSize, vocabSize, numHeads, numKvHeads, headDim, intermediateSize, numLayers } = architecture;
  const { qkvBias, oBias, mlpBias, qkNorm, outputNorms, tieWordEmbeddings } = architecture;
  const qWidth = numHeads * headDim;
  const kvWidth = numKvHeads * headDim;
  const tensors: [string, number[]][] = [
    ['model.embed_tokens.weight', [vocabSize, hiddenSize]],
    ['model.norm.weight', [hiddenSize]],
  ];
  if (!tieWordEmbeddings) tensors.push(['lm_head.weight', [vocabSize, hiddenSize]]);
  for (let index = 0; index < numLayers; index++) {
    const add = (name: string, shape: number[]) => tensors.push([`model.layers.${index}.${name}`, shape]);
    const linear = (name: string, outputs: number, inputs: number, bias: boolean) => {
      add(`${name}.weight`, [outputs, inputs]);
      if (bias) add(`${name}.bias`, [outputs]);
    };
    add('input_layernorm.weight', [hiddenSize]);
    linear('self_attn.q_proj', qWidth, hiddenSize, qkvBias);
    linear('self_attn.k_proj', kvWidth, hiddenSize, qkvBias);
    linear('self_attn.v_proj', kvWidth, hiddenSize, qkvBias);
    if (qkNorm) {
      add('self_attn.q_norm.weight', [headDim]);
      add('self_attn.k_norm.weight', [headDim]);
    }
    linear('self_attn.o_proj', hiddenSize, qWidth, oBias);
    add('post_attention_layernorm.weight', [hiddenSize]);
    if (outputNorms) {
      add('pre_feedforward_layernorm.weight', [hiddenSize]);
      add('post_feedforward_layernorm.weight', [hiddenSize]);
    }
    linear('mlp.gate_proj', intermediateSize, hiddenSize, mlpBias);
    linear('mlp.up_proj', intermediateSize, hiddenSize, mlpBias);
    linear('mlp.down_proj', hiddenSize, intermediateSize, mlpBias);
  }
  return tensors;
}

/** Numbers in a checkpoint of this architecture. Tied embeddings count once. */
export function countParameters(architecture: Architecture): number {
  return sumOf(expectedTensors(architecture), ([, shape]) => shape.reduce((product, n) => product * n, 1));
}

/**
 * The tensor's name in a text-only model; null if it belongs to another part of a multimodal one
 * (Gemma3ForConditionalGeneration, in its old and its new naming).
 */
export function textTensorName(name: string): string | null {
  if (/^(model\.)?(vision_tower|multi_modal_projector)\./.test(name)) return null;
  return name.replace(/^language_model\./, '').replace(/^model\.language_model\./, 'model.');
}

/** Tensors that some checkpoints contain and that are not needed. */
export function ignoredTensor(name: string, architecture: Architecture): boolean {
  return (
    name.endsWith('.rotary_emb.inv_freq') || (name === 'lm_head.weight' && architecture.tieWordEmbeddings)
  );
}
