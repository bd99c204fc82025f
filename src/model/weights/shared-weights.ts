/**
 * Shares weights between engines that start together, so that each part is generated or read once. Each engine produces
 * parts that no other has begun, in memory visible to all, and copies the rest from there. If one engine fails, the
 * others produce its parts themselves.
 */
import { copyBytes } from '../../copy-bytes.ts';
import { invariant } from '../../errors.ts';
import { roundUp } from '../../gpu/buffer-size.ts';
import { sumOf } from '../../sum.ts';
import {
  type Allocate,
  type Architecture,
  type Columns,
  inMemory,
  type LayerWeights,
  type Matrix,
  type ModelWeights,
  pad4,
  type WeightDtype,
} from '../types.ts';
import { matricesOf } from './matrices.ts';

/** State of a piece: the embedding, the LM head, or one layer. */
const STATE = { open: 0, making: 1, made: 2, failed: 3 } as const;

/** Above this size nothing is shared: a second whole copy in memory would cost more than it saves. */
const MOST_SHARED_BYTES = 2 ** 30;

/** Bytes of the shared copy, in addition to the engines' own; null: too large to share. */
export function sharedBytes(architecture: Architecture, dtype: WeightDtype): number | null {
  const bytes = stateBytes(architecture) + sumOf(piecesOf(architecture, dtype), ({ bytes }) => bytes);
  return bytes <= MOST_SHARED_BYTES ? bytes : null;
}

/** Releases engines that wait for a piece whose producer may be gone. */
export function abandon(memory: SharedArrayBuffer, architecture: Architecture): void {
  const states = new Int32Array(memory, 0, stateBytes(architecture) / 4);
  for (let piece = 0; piece < states.length; piece++)
    Atomics.compareExchange(states, piece, STATE.making, STATE.failed);
}

interface Field {
  name: 'embedding' | 'lmHead' | keyof LayerWeights;
  dtype: WeightDtype;
  rows: number;
  /** null: a vector of `rows` values. */
  columns: number | null;
  /** Bytes from the start of the piece. */
  offset: number;
}

interface Piece {
  offset: number;
  bytes: number;
  fields: readonly Field[];
}

const aligned = (bytes: number): number => roundUp(bytes, 16);
const elementsOf = ({ rows, columns }: Pick<Field, 'rows' | 'columns'>): number =>
  columns === null ? rows : pad4(rows) * pad4(columns);
const stateBytes = ({ numLayers }: Architecture): number => aligned(4 * (numLayers + 2));

/** Embedding, LM head (empty if tied), then the layers, in consecutive memory. */
function piecesOf(a: Architecture, dtype: WeightDtype): Piece[] {
  const { qkv, o, 'gate up': gateUp, down, 'lm head': head } = matricesOf(a);
  let offset = stateBytes(a);
  const piece = (fields: readonly Omit<Field, 'offset'>[]): Piece => {
    let bytes = 0;
    const placed = fields.map((field) => {
      const at = bytes;
      bytes += aligned(elementsOf(field) * (field.dtype === 'f16' ? 2 : 4));
      return { ...field, offset: at };
    });
    const made = { offset, bytes, fields: placed };
    offset += bytes;
    return made;
  };
  const matrix = (name: Field['name'], { inputs, outputs }: typeof qkv) => {
    return { name, dtype, rows: inputs, columns: outputs };
  };
  const vector = (name: Field['name'], rows: number, has = true) =>
    has ? [{ name, dtype: 'f32' as const, rows, columns: null }] : [];
  const layer = [
    ...vector('inputNorm', a.hiddenSize),
    matrix('qkv', qkv),
    ...vector('qkvBias', qkv.outputs, a.qkvBias),
    ...vector('qNorm', a.headDim, a.qkNorm),
    ...vector('kNorm', a.headDim, a.qkNorm),
    matrix('o', o),
    ...vector('oBias', o.outputs, a.oBias),
    ...vector('attentionOutNorm', a.hiddenSize, a.outputNorms),
    ...vector('mlpNorm', a.hiddenSize),
    matrix('gateUp', gateUp),
    ...vector('gateUpBias', gateUp.outputs, a.mlpBias),
    matrix('down', down),
    ...vector('downBias', down.outputs, a.mlpBias),
    ...vector('mlpOutNorm', a.hiddenSize, a.outputNorms),
  ];
  return [
    piece([matrix('embedding', head)]),
    piece(a.tieWordEmbeddings ? [] : [matrix('lmHead', head)]),
    ...Array.from({ length: a.numLayers }, () => piece(layer)),
  ];
}

type Made = Partial<Record<Field['name'], Matrix | Float32Array | null>>;

export class SharedWeights implements ModelWeights {
  readonly architecture: Architecture;
  readonly dtype: WeightDtype;
  readonly #own: ModelWeights;
  readonly #memory: SharedArrayBuffer;
  readonly #states: Int32Array;
  readonly #pieces: readonly Piece[];

  /** `memory`: sharedBytes() bytes, initially zero, the same buffer for all engines of this model. */
  constructor(own: ModelWeights, memory: SharedArrayBuffer) {
    this.architecture = own.architecture;
    this.dtype = own.dtype;
    this.#own = own;
    this.#memory = memory;
    this.#states = new Int32Array(memory, 0, stateBytes(own.architecture) / 4);
    this.#pieces = piecesOf(own.architecture, own.dtype);
  }

  async embedding(allocate: Allocate = inMemory, columns?: Columns): Promise<Matrix> {
    const made = await this.#take(0, allocate, columns);
    return made ? (made.embedding as Matrix) : this.#own.embedding(allocate, columns);
  }

  async lmHead(allocate: Allocate = inMemory, columns?: Columns): Promise<Matrix | null> {
    if (this.architecture.tieWordEmbeddings) return null;
    const made = await this.#take(1, allocate, columns);
    return made ? (made.lmHead as Matrix) : this.#own.lmHead(allocate, columns);
  }

  finalNorm(): Promise<Float32Array> {
    return this.#own.finalNorm();
  }

  async layer(index: number, allocate: Allocate = inMemory): Promise<LayerWeights> {
    const made = await this.#take(index + 2, allocate);
    if (!made) return this.#own.layer(index, allocate);
    const {
      qkvBias = null,
      qNorm = null,
      kNorm = null,
      oBias = null,
      gateUpBias = null,
      downBias = null,
    } = made;
    const { attentionOutNorm = null, mlpOutNorm = null } = made;
    const perhaps = { qkvBias, qNorm, kNorm, oBias, gateUpBias, downBias, attentionOutNorm, mlpOutNorm };
    return { ...made, ...perhaps } as LayerWeights;
  }

  async makeAhead(): Promise<boolean> {
    const next = this.#claim(0);
    // Of a piece that fails, the reason is thrown to who asks for it.
    if (next !== null) await this.#make(next).catch(() => {});
    return next !== null;
  }

  /**
   * The piece, copied from shared memory once it is ready. Until then, produces pieces that nobody has begun. null: its
   * producer failed.
   */
  async #take(wanted: number, allocate: Allocate, some?: Columns): Promise<Made | null> {
    for (;;) {
      const state = Atomics.load(this.#states, wanted);
      if (state === STATE.made) return this.#copy(this.#pieces[wanted]!, allocate, some);
      if (state === STATE.failed) return null;
      const next = this.#claim(wanted);
      if (next === null) await new Promise((resolve) => setTimeout(resolve, 1));
      else await this.#make(next);
    }
  }

  /** Claims this piece or a later one that nobody has begun; null: all are claimed. */
  #claim(wanted: number): number | null {
    for (let piece = wanted; piece < this.#pieces.length; piece++) {
      if (this.#pieces[piece]!.bytes === 0) continue;
      if (Atomics.compareExchange(this.#states, piece, STATE.open, STATE.making) === STATE.open) return piece;
    }
    return null;
  }

  async #make(index: number): Promise<void> {
    try {
      const { offset, fields } = this.#pieces[index]!;
      const allocate = this.#inPlace(offset, fields);
      const made: Made =
        index === 0
          ? { embedding: await this.#own.embedding(allocate) }
          : index === 1
            ? { lmHead: await this.#own.lmHead(allocate) }
            : { ...(await this.#own.layer(index - 2, allocate)) };
      for (const field of fields) {
        const value = made[field.name]!;
        const data = value instanceof Float32Array ? value : value.data;
        if (data.buffer !== this.#memory) this.#view(offset, field).set(data);
      }
      Atomics.compareExchange(this.#states, index, STATE.making, STATE.made);
    } catch (error) {
      Atomics.store(this.#states, index, STATE.failed);
      throw error;
    }
  }

  /** Places each matrix directly in shared memory. Matrices are allocated in the order of their fields. */
  #inPlace(offset: number, fields: readonly Field[]): Allocate {
    const matrices = fields.filter(({ columns }) => columns !== null);
    return (name, dtype, elements) => {
      const field = matrices.shift();
      invariant(
        field?.dtype === dtype && elementsOf(field) === elements,
        () => `the weights have ${elements} values of ${name} where ${field?.name ?? 'nothing'} was expected`,
      );
      return this.#view(offset, field!);
    };
  }

  /** `some`: only these columns of a matrix. */
  #copy({ offset, fields }: Piece, allocate: Allocate, some?: Columns): Made {
    const copied: Made = {};
    for (const field of fields) {
      const { name, dtype, rows } = field;
      const shared = this.#view(offset, field);
      if (field.columns === null) {
        copied[name] = Float32Array.from(shared);
        continue;
      }
      const columns = some?.count ?? field.columns;
      const data = allocate(name, dtype, pad4(rows) * pad4(columns));
      // Whole panels are contiguous.
      const first = (some?.first ?? 0) * pad4(rows);
      copyBytes(data, shared.subarray(first, first + data.length));
      copied[name] = { dtype, rows, columns, data } as Matrix;
    }
    return copied;
  }

  #view(offset: number, field: Field): Uint16Array<SharedArrayBuffer> | Float32Array<SharedArrayBuffer> {
    const at = offset + field.offset;
    const elements = elementsOf(field);
    return field.dtype === 'f16'
      ? new Uint16Array(this.#memory, at, elements)
      : new Float32Array(this.#memory, at, elements);
  }
}
