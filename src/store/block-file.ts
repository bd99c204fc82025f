/**
 * The byte format of a block in a file or in a server's value: a 96-byte header that identifies it, then its KV. Header and
 * checksums are verified before any of the KV is used.
 */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js';
import { checksum, checksumInOneRow } from '../transport/checksum.ts';
import { partsOf, type StoreKey } from './keys.ts';
import { bytesIn } from './slots.ts';

/** Increment when the meaning of a folder's contents or of the header changes: older data is then not found or read. */
export const FORMAT_VERSION = 1;
/** Checksum function by file version. Older versions can still be read. */
const SUMS = { 1: checksumInOneRow, 2: checksum } as const;
const FILE_VERSION = 2;

/** 'KVFB', little-endian. */
const MAGIC = 0x4246564b;
/** Byte offsets in the header. Version and group have two bytes each. */
const AT = {
  magic: 0,
  version: 4,
  group: 6,
  namespace: 8,
  hash: 40,
  bytes: 72,
  sum: 76,
  headSum: 80,
} as const;
export const HEAD_BYTES = 96;

/** Size of a block's file, bytes. `blockBytes`: size of its KV. */
export const fileBytesOf = (blockBytes: number): number => HEAD_BYTES + blockBytes;

export interface BlockName {
  /** See namespaceOf: 64 hex digits. */
  namespace: string;
  key: StoreKey;
}

/** How a block is named and encoded below a store's memory. */
export interface BlockFormat {
  /** null if the key cannot be part of a name; the block is then kept in memory only. */
  nameOf(name: BlockName): string | null;
  encode(name: BlockName, kv: readonly Uint8Array[]): Uint8Array;
  /** Returns the KV, or a few words on what is wrong. `bytes`: expected size of the KV. */
  decode(file: Uint8Array, name: BlockName, bytes: number): Uint8Array | { wrong: string };
  /** Size to account per file, in bytes, for formats that contain no KV. Default: the encoded size. */
  fileBytes?(name: BlockName): number;
}

const DIGITS = /^[0-9a-f]{64}$/;
const KEY = /^[0-9a-f]{64}(\.[1-9]\d{0,3})?$/;

/** Whether the block's name can be part of a file name or of a server's key. */
export const isName = ({ namespace, key }: BlockName): boolean => KEY.test(key) && DIGITS.test(namespace);

/**
 * Digest of everything that must be equal for two engines' blocks with the same hash to have the same bytes. 64 hex digits.
 */
export function namespaceOf(equal: {
  compatibilityHash: string;
  blockSize: number;
  blockBytes: readonly number[];
  hashSeed: string;
  /** The GPU adapter: another driver may round differently. */
  adapter: string;
  /** Digest of the weight files; null if the model's name identifies them. */
  weights: string | null;
}): string {
  const { compatibilityHash, blockSize, blockBytes, hashSeed, adapter, weights } = equal;
  const facts = [FORMAT_VERSION, compatibilityHash, blockSize, blockBytes, hashSeed, adapter, weights];
  // Earlier files had all groups of a block together. This keeps them from being read.
  if (blockBytes.length > 1) facts.push('a file a group');
  return bytesToHex(sha256(utf8ToBytes(JSON.stringify(facts))));
}

export function encodeBlock({ namespace, key }: BlockName, kv: readonly Uint8Array[]): Uint8Array {
  const length = bytesIn(kv);
  const file = new Uint8Array(HEAD_BYTES + length);
  let end = HEAD_BYTES;
  for (const part of kv) {
    file.set(part, end);
    end += part.length;
  }
  const view = new DataView(file.buffer);
  view.setUint32(AT.magic, MAGIC, true);
  const { hash, group } = partsOf(key);
  view.setUint16(AT.version, FILE_VERSION, true);
  view.setUint16(AT.group, group, true);
  file.set(hexToBytes(namespace), AT.namespace);
  file.set(hexToBytes(hash), AT.hash);
  view.setUint32(AT.bytes, length, true);
  view.setUint32(AT.sum, checksum(file.subarray(HEAD_BYTES)), true);
  view.setUint32(AT.headSum, checksum(file.subarray(0, AT.headSum)), true);
  return file;
}

/** Returns the KV as a view, or a few words on what is wrong with the file. `bytes`: expected size of the KV. */
export function decodeBlock(
  file: Uint8Array,
  { namespace, key }: BlockName,
  bytes: number,
): Uint8Array | { wrong: string } {
  if (file.length < HEAD_BYTES) return { wrong: `it has ${file.length} bytes, fewer than a header` };
  const view = new DataView(file.buffer, file.byteOffset, file.length);
  if (view.getUint32(AT.magic, true) !== MAGIC) return { wrong: 'it is not a block' };
  const version = view.getUint16(AT.version, true);
  const sumOf = version in SUMS ? SUMS[version as keyof typeof SUMS] : null;
  if (!sumOf) return { wrong: `it has format ${version}, not ${FILE_VERSION}` };
  if (view.getUint32(AT.headSum, true) !== sumOf(file.subarray(0, AT.headSum)))
    return { wrong: "its header's checksum differs" };
  if (!same(file.subarray(AT.namespace, AT.hash), hexToBytes(namespace)))
    return { wrong: 'it belongs to another model, layout or adapter' };
  const { hash, group } = partsOf(key);
  const isBlock = same(file.subarray(AT.hash, AT.bytes), hexToBytes(hash));
  if (!isBlock || view.getUint16(AT.group, true) !== group) return { wrong: 'it is another block' };
  const length = view.getUint32(AT.bytes, true);
  if (length !== bytes || file.length !== HEAD_BYTES + length)
    return { wrong: `it has ${file.length - HEAD_BYTES} bytes of KV, not ${bytes}` };
  const kv = file.subarray(HEAD_BYTES);
  return view.getUint32(AT.sum, true) === sumOf(kv) ? kv : { wrong: "its KV's checksum differs" };
}

const same = (a: Uint8Array, b: Uint8Array): boolean => a.every((byte, i) => byte === b[i]);
