package cli

import (
	"errors"
	"io/fs"
	"os"
)

// Cause is err without the operation and path that package os puts in front.
func Cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.SyscallError](err); ok {
		return e.Err
	}
	return err
}
