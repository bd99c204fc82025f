/** When a starting process was how far: milliseconds since the epoch. */
export interface StartTimes {
  /** Node itself. */
  booted: number;
  /** The command's modules. */
  loaded: number;
  adapter: number;
  /** Both, ready. */
  engines: number;
  firstToken: number;
  /** Of P and D, milliseconds side by side: weights onto the device, pipelines made and first dispatched. */
  loadMs: number[];
  compileMs: number[];
}

export type FromChild = { kind: 'times'; times: StartTimes } | { kind: 'failed'; why: string };
