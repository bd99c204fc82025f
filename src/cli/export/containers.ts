/** Parts of pods that several target systems share. */
import { commandText } from '../vllm/shell.ts';

export const ENGINE_IMAGE = 'vllm/vllm-openai:v0.21.0';
export const ENGINE_PORT = 8000;
/** Port of NIXL's handshakes; vLLM's default. */
export const SIDE_CHANNEL_PORT = 5600;

/** NIXL's environment: each pod uses its own address. */
export const nixlEnvironment = () => [
  { name: 'VLLM_NIXL_SIDE_CHANNEL_HOST', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } },
  { name: 'VLLM_NIXL_SIDE_CHANNEL_PORT', value: String(SIDE_CHANNEL_PORT) },
];

export const oneGpu = () => ({ limits: { 'nvidia.com/gpu': '1' } });

/** A readable `vllm serve` shell command. */
export const serveCommand = (model: string, port: number, options: readonly string[]): string =>
  commandText({}, ['vllm', 'serve', model, '--host', '0.0.0.0', '--port', String(port), ...options]);

export const IMAGES_REMARK =
  "Images, GPUs, volumes and secrets are those of this system's examples: replace them with your own.";
