/** Counts the bytes of a device's live buffers: created and not destroyed, by any code. */
export class DeviceBytes {
  #bytes = 0;

  /** Wraps device.createBuffer. Call once, before the device creates its first buffer. */
  constructor(device: GPUDevice) {
    const create = device.createBuffer.bind(device);
    device.createBuffer = (descriptor) => {
      const buffer = create(descriptor);
      this.#bytes += buffer.size;
      this.#untilDestroyed(buffer);
      return buffer;
    };
  }

  get total(): number {
    return this.#bytes;
  }

  #untilDestroyed(buffer: GPUBuffer): void {
    const { size } = buffer;
    const destroy = buffer.destroy.bind(buffer);
    let counted = true;
    buffer.destroy = () => {
      if (counted) this.#bytes -= size;
      counted = false;
      destroy();
    };
  }
}
