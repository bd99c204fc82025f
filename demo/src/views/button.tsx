/** A button that keeps the keyboard's focus while it is off: browsers take the focus from a disabled one. */
import type { ButtonHTMLAttributes } from 'preact';

type Props = Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'disabled' | 'onClick'> & {
  off: boolean;
  onClick?: () => void;
};

export function Button({ off, onClick, ...rest }: Props) {
  return (
    <button
      type="button"
      {...rest}
      aria-disabled={off}
      onClick={(event) => {
        if (!off) onClick?.();
        // Nor does it submit its form.
        else event.preventDefault();
      }}
    />
  );
}
