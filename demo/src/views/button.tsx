/** A button that keeps the keyboard's focus while it is off: browsers take the focus from a disabled one. */
import type { ButtonHTMLAttributes } from 'preact';

type Props = Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'disabled' | 'onClick'> & {
  off?: boolean;
  /** It has taken the place of another button: the second click of a double click was for that one. */
  inPlace?: boolean;
  onClick?: () => void;
};

export function Button({ off = false, inPlace = false, onClick, ...rest }: Props) {
  return (
    <button
      type="button"
      {...rest}
      aria-disabled={off}
      onClick={(event) => {
        // Nor does it submit its form.
        if (off) event.preventDefault();
        else if (!inPlace || event.detail < 2) onClick?.();
      }}
    />
  );
}
