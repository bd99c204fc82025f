/** Defaults that differ where no engine starts, for help. */
export const MODELLED_NOTES = {
  link: 'a READ takes as long as --costs says',
  maxModelLen: "the model's own limit, or the longest conversation if that is longer",
};
