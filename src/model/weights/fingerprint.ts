/** A fingerprint that distinguishes a model's files from others of the same shape without reading them whole. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import type { FileSource } from '../../platform/types.ts';
import type { Checkpoint } from './hf-weights.ts';
import type { StoredTensor } from './stored-tensor.ts';

const SAMPLE_BYTES = 4096;

/**
 * SHA-256, in hex, over config.json and, for each tensor that an engine reads, its dtype, shape, and samples from its
 * start, middle and end. Further training changes every matrix everywhere, so the samples show it. Throws ModelError.
 */
export async function fingerprint(files: FileSource, { tensors }: Checkpoint): Promise<string> {
  const digest = sha256.create();
  digest.update(utf8ToBytes((await files.readText('config.json')) ?? ''));
  for (const name of [...tensors.keys()].toSorted()) {
    const tensor = tensors.get(name)!;
    digest.update(utf8ToBytes(`${name} ${tensor.dtype} ${tensor.shape.join()}\n`));
    for (const sample of await Promise.all(samplesOf(files, tensor))) digest.update(sample);
  }
  return bytesToHex(digest.digest());
}

function samplesOf(files: FileSource, { file, fileOffset, byteLength }: StoredTensor): Promise<Uint8Array>[] {
  const length = Math.min(SAMPLE_BYTES, byteLength);
  const last = byteLength - length;
  const places = new Set([0, Math.floor(last / 2), last]);
  return [...places].map((at) => files.readBytes(file, fileOffset + at, length));
}
