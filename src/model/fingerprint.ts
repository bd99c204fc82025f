/** What tells a model's files from others of the same shape, without reading all of them. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import type { FileSource } from '../platform/types.ts';

const SAMPLES = 16;
const SAMPLE_BYTES = 16 * 1024;

/** Of config.json, and of the weights their lengths and samples from all over them. Hex. Throws ModelError. */
export async function fingerprint(files: FileSource): Promise<string> {
  const digest = sha256.create();
  digest.update(utf8ToBytes((await files.readText('config.json')) ?? ''));
  const index = await files.readText('model.safetensors.index.json');
  const named = index ? (JSON.parse(index) as { weight_map?: Record<string, string> }).weight_map : null;
  const names = named ? [...new Set(Object.values(named))].toSorted() : ['model.safetensors'];
  for (const name of names) {
    const bytes = (await files.size(name)) ?? 0;
    digest.update(utf8ToBytes(`${name} ${bytes}\n`));
    const step = Math.max(SAMPLE_BYTES, Math.floor(bytes / SAMPLES));
    for (let at = 0; at < bytes; at += step)
      digest.update(await files.readBytes(name, at, Math.min(SAMPLE_BYTES, bytes - at)));
  }
  return bytesToHex(digest.digest());
}
