/** A signal that aborts with another, for one client or request: Node warns of a leak if one signal has many listeners. */
export const ownSignal = (signal: AbortSignal): AbortSignal => AbortSignal.any([signal]);
