//go:build linux

package posix

import (
	"errors"
	"log/slog"
	"time"
)

// Options say how a directory is served. The zero value is right for a
// daemon that keeps no state.
type Options struct {
	// StateDir is a directory of this daemon's own, outside of the export,
	// for what must outlive it: the table behind handles of kind 2. Empty
	// means that such handles do not outlive the FS. It is made if it does
	// not exist. No two FS may use the same one at the same time.
	StateDir string

	// FSID is what Attr.FSID says; 0 means the device number of dir.
	FSID uint64

	// TableHandles gives out handles of kind 2 even where the kernel would
	// open files by handle.
	TableHandles bool

	// MaxFiles bounds the descriptors kept open; 0 means half of
	// RLIMIT_NOFILE. IdleTime is how long one is kept unused; 0 means 5 s.
	MaxFiles int
	IdleTime time.Duration

	// Verifier is the first write verifier; 0 means one of the clock.
	Verifier uint64

	Log *slog.Logger // nil means none
}

// FS is a directory of the host, as vfs.FS.
type FS struct{}

// Open serves dir.
func Open(dir string, o Options) (*FS, error) { return nil, errors.ErrUnsupported }
