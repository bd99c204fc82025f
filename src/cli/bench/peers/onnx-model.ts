/** The smallest ONNX model that multiplies two matrices, written field by field (onnx.proto3). */

const FLOAT = 1;

function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 127) {
    bytes.push((rest & 127) | 128);
    rest >>>= 7;
  }
  return [...bytes, rest];
}

/** A field that holds a number. */
const number = (field: number, value: number): number[] => [...varint(field * 8), ...varint(value)];
/** A field that holds bytes: a string or a message. */
const bytes = (field: number, content: readonly number[]): number[] => [
  ...varint(field * 8 + 2),
  ...varint(content.length),
  ...content,
];
const text = (field: number, value: string): number[] => bytes(field, [...new TextEncoder().encode(value)]);

function valueInfo(name: string, shape: readonly number[]): number[] {
  const dims = shape.flatMap((size) => bytes(1, number(1, size)));
  const tensorType = [...number(1, FLOAT), ...bytes(2, dims)];
  return [...text(1, name), ...bytes(2, bytes(1, tensorType))];
}

/** c[m][n] = a[m][k] * b[k][n], all three f32; a and b are inputs. */
export function matMulModel(m: number, k: number, n: number): Uint8Array {
  const node = [...text(1, 'a'), ...text(1, 'b'), ...text(2, 'c'), ...text(4, 'MatMul')];
  const graph = [
    ...bytes(1, node),
    ...text(2, 'multiply'),
    ...bytes(11, valueInfo('a', [m, k])),
    ...bytes(11, valueInfo('b', [k, n])),
    ...bytes(12, valueInfo('c', [m, n])),
  ];
  const irVersion = 8;
  const opset = 13;
  return Uint8Array.from([...number(1, irVersion), ...bytes(7, graph), ...bytes(8, number(2, opset))]);
}
