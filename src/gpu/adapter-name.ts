/** A readable name for an adapter, derived from its WebGPU info. */

export interface AdapterFacts {
  vendor: string;
  architecture: string;
  device: string;
  description: string;
}

const MESA = /llvmpipe: Mesa (\d[\d.]*).*LLVM (\d[\d.]*)/;

/** For example 'lavapipe (Mesa 25.0.7, LLVM 15.0.6)', 'SwiftShader 5.0.0', 'nvidia geforce rtx 4090 (550.54.14)'. */
export function adapterName({ vendor, architecture, device, description }: AdapterFacts): string {
  const mesa = MESA.exec(description);
  if (mesa) return `lavapipe (Mesa ${mesa[1]}, LLVM ${mesa[2]})`;
  const swiftShader = /SwiftShader driver ([\d.]+)/.exec(description);
  if (swiftShader) return `SwiftShader ${swiftShader[1]}`;
  const card = device.replaceAll('-', ' ').trim() || [vendor, architecture].filter(Boolean).join(' ');
  if (!card) return description || 'an adapter without a name';
  return description ? `${card} (${description})` : card;
}

/** `name` as returned by adapterName. */
export const isLavapipe = ({ name }: { name: string }): boolean => name.startsWith('lavapipe');

/** Whether the adapter computes on the CPU. */
export const isSoftwareAdapter = (facts: AdapterFacts & { isFallbackAdapter?: boolean }): boolean =>
  facts.isFallbackAdapter === true ||
  /llvmpipe|lavapipe|swiftshader|basic render/i.test(
    `${facts.vendor} ${facts.architecture} ${facts.device} ${facts.description}`,
  );
