/**
 * A block as a file or a value, byte by byte: 96 bytes that say what it is, then its KV. What does not fit them is no block: it
 * is told apart before anything of it is used.
 */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js';
import { checksum, checksumInOneRow } from '../transport/checksum.ts';
import { partsOf, type StoreKey } from './keys.ts';
import { bytesIn } from './slots.ts';

/** Raised when what a folder holds, or how a file begins, means something else: none of it is found or read then. */
export const FORMAT_VERSION = 1;
/** Of a single file: how its checksums are made. Older ones are read. */
const SUMS = { 1: checksumInOneRow, 2: checksum } as const;
const FILE_VERSION = 2;

/** 'KVFB', little-endian. */
const MAGIC = 0x4246564b;
/** Version and group have two bytes each. */
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

/** Of a block's file; `blockBytes`: of its KV. */
export const fileBytesOf = (blockBytes: number): number => HEAD_BYTES + blockBytes;

export interface BlockName {
  /** What all blocks of a store have in common: 64 hex digits. */
  namespace: string;
  hash: StoreKey;
}

/** What a block is called below a store's memory, and what it is there. */
export interface BlockFormat {
  /** null for a hash that is no name: it is then kept in memory only. */
  nameOf(name: BlockName): string | null;
  encode(name: BlockName, kv: readonly Uint8Array[]): Uint8Array;
  /** `bytes`: of KV, as it must be. The KV, or what is wrong, in a few words. */
  decode(file: Uint8Array, name: BlockName, bytes: number): Uint8Array | { wrong: string };
  /** What a file counts for, where it holds no bytes. */
  fileBytes?(): number;
}

const DIGITS = /^[0-9a-f]{64}$/;
const KEY = /^[0-9a-f]{64}(\.[1-9]\d{0,3})?$/;

/** Whether it can be a part of a file's name or of a key. */
export const isName = ({ namespace, hash }: BlockName): boolean => KEY.test(hash) && DIGITS.test(namespace);

/**
 * Two engines' blocks of the same hash have the same bytes only where all of this is equal. 64 hex digits.
 */
export function namespaceOf(equal: {
  compatibilityHash: string;
  blockSize: number;
  blockBytes: readonly number[];
  hashSeed: string;
  /** Another driver may round otherwise. */
  adapter: string;
  /** A digest of the files; null where the model's name says it all. */
  weights: string | null;
}): string {
  const { compatibilityHash, blockSize, blockBytes, hashSeed, adapter, weights } = equal;
  const facts = [FORMAT_VERSION, compatibilityHash, blockSize, blockBytes, hashSeed, adapter, weights];
  // Such files had all groups of a block together once.
  if (blockBytes.length > 1) facts.push('a file a group');
  return bytesToHex(sha256(utf8ToBytes(JSON.stringify(facts))));
}

export function encodeBlock({ namespace, hash }: BlockName, kv: readonly Uint8Array[]): Uint8Array {
  const length = bytesIn(kv);
  const file = new Uint8Array(HEAD_BYTES + length);
  let end = HEAD_BYTES;
  for (const part of kv) {
    file.set(part, end);
    end += part.length;
  }
  const view = new DataView(file.buffer);
  view.setUint32(AT.magic, MAGIC, true);
  const { hash: digits, group } = partsOf(hash);
  view.setUint16(AT.version, FILE_VERSION, true);
  view.setUint16(AT.group, group, true);
  file.set(hexToBytes(namespace), AT.namespace);
  file.set(hexToBytes(digits), AT.hash);
  view.setUint32(AT.bytes, length, true);
  view.setUint32(AT.sum, checksum(file.subarray(HEAD_BYTES)), true);
  view.setUint32(AT.headSum, checksum(file.subarray(0, AT.headSum)), true);
  return file;
}

/** The KV, or what is wrong with the file, in a few words. `bytes`: of KV, as it must be. */
export function decodeBlock(
  file: Uint8Array,
  { namespace, hash }: BlockName,
  bytes: number,
): Uint8Array | { wrong: string } {
  if (file.length < HEAD_BYTES) return { wrong: `it has ${file.length} bytes, fewer than a head` };
  const view = new DataView(file.buffer, file.byteOffset, file.length);
  if (view.getUint32(AT.magic, true) !== MAGIC) return { wrong: 'it is no block' };
  const version = view.getUint16(AT.version, true);
  const sumOf = version in SUMS ? SUMS[version as keyof typeof SUMS] : null;
  if (!sumOf) return { wrong: `it is of format ${version}, not ${FILE_VERSION}` };
  if (view.getUint32(AT.headSum, true) !== sumOf(file.subarray(0, AT.headSum)))
    return { wrong: "its head's checksum differs" };
  if (!same(file.subarray(AT.namespace, AT.hash), hexToBytes(namespace)))
    return { wrong: 'it is of another model, layout or adapter' };
  const { hash: digits, group } = partsOf(hash);
  const isBlock = same(file.subarray(AT.hash, AT.bytes), hexToBytes(digits));
  if (!isBlock || view.getUint16(AT.group, true) !== group) return { wrong: 'it is another block' };
  const length = view.getUint32(AT.bytes, true);
  if (length !== bytes || file.length !== HEAD_BYTES + length)
    return { wrong: `it has ${file.length - HEAD_BYTES} bytes of KV, not ${bytes}` };
  const kv = file.subarray(HEAD_BYTES);
  return view.getUint32(AT.sum, true) === sumOf(kv) ? kv : { wrong: "its KV's checksum differs" };
}

const same = (a: Uint8Array, b: Uint8Array): boolean => a.every((byte, i) => byte === b[i]);
