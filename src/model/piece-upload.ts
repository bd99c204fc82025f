/** Writes a piece's inputs to the device, ahead of its kernels in the queue. */
import { RequestError } from '../errors.ts';
import type { GpuDevice } from '../gpu/device.ts';
import type { Activations } from './activations.ts';
import type { ForwardPass } from './forward-pass.ts';
import { packSamples } from './sampling.ts';
import { attentionTiles, type Piece } from './step-inputs.ts';

/** Forbidden token ids of a piece at most, by row that may get logits. */
export const FORBIDDEN_PER_ROW = 64;

interface UploadParts {
  options: { gpu: GpuDevice };
  activations: Activations;
  pass: ForwardPass;
}

/** Throws EngineDeadError, or RequestError when more token ids are forbidden than there is room for. */
export function uploadPiece({ options: { gpu }, activations, pass }: UploadParts, piece: Piece): void {
  const { queue } = gpu.device;
  gpu.assertAlive();
  queue.writeBuffer(pass.stepUniform, 0, Uint32Array.of(piece.numRows, piece.logitRows.length));
  piece.groups.forEach(({ tokens, tables }, group) => {
    queue.writeBuffer(activations.tokens[group]!, 0, tokens);
    queue.writeBuffer(activations.tables[group]!, 0, tables);
  });
  queue.writeBuffer(activations.tiles, 0, attentionTiles(piece, pass.group, pass.tileRows(piece)));
  if (piece.samples.length === 0) return;
  const { rows, forbidden } = packSamples(piece.samples.map(({ sample }) => sample));
  if (forbidden.byteLength > activations.forbidden.size) {
    throw new RequestError(
      `${forbidden.length} end and stop tokens are forbidden at once, and at most ${activations.forbidden.size / 4} can be: ` +
        'give fewer stop tokens, or no minimum of tokens',
    );
  }
  queue.writeBuffer(activations.logitRows, 0, piece.logitRows);
  queue.writeBuffer(activations.sampleRows, 0, rows);
  if (forbidden.length > 0) queue.writeBuffer(activations.forbidden, 0, forbidden);
}
