/** Counts the bytes of a device's buffers: those that were created and not destroyed, whoever created them. */
export class DeviceBytes {
  #bytes = 0;

  /** Call once, before the device's first buffer. */
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
