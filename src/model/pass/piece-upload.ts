/** Writes a piece's inputs to the device, ahead of its kernels in the queue. */
import type { GpuDevice } from '../../gpu/device.ts';
import type { Activations } from './activations.ts';
import type { ForwardPass } from './forward-pass.ts';
import { packSamples } from './sampling.ts';
import { attentionTiles, type Piece } from './step-inputs.ts';

interface UploadParts {
  options: { gpu: GpuDevice };
  activations: Activations;
  pass: ForwardPass;
}

/** Throws EngineDeadError if the device is gone. */
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
  queue.writeBuffer(activations.logitRows, 0, piece.logitRows);
  queue.writeBuffer(activations.sampleRows, 0, rows);
  if (forbidden.length > 0) queue.writeBuffer(activations.forbidden, 0, forbidden);
}
