package billy

import (
	"errors"
	"os"
	"syscall"

	gobilly "github.com/go-git/go-billy/v5"
)

// words are the errors of packages os and go-billy that have an errno on the
// host.
var words = []struct {
	err   error
	errno syscall.Errno
}{
	{os.ErrNotExist, syscall.ENOENT},
	{os.ErrExist, syscall.EEXIST},
	{os.ErrPermission, syscall.EACCES},
	{os.ErrInvalid, syscall.EINVAL},
	{os.ErrDeadlineExceeded, syscall.ETIMEDOUT},
	{gobilly.ErrReadOnly, syscall.EROFS},
	{gobilly.ErrNotSupported, syscall.EOPNOTSUPP},
	{gobilly.ErrCrossedBoundary, syscall.EACCES},
	{errors.ErrUnsupported, syscall.EOPNOTSUPP},
}

// errnoOf returns the errno of a billy file system's error. An error without an
// errno is converted by Options.Errors.
func (f *FS) errnoOf(err error) error {
	if err == nil {
		return nil
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	for _, w := range words {
		if errors.Is(err, w.err) {
			return w.errno
		}
	}
	if f.o.Errors != nil {
		return f.o.Errors(err)
	}
	return err
}
