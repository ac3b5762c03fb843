//go:build linux

package posix

import (
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/lograte"
)

// Options say how a directory is served. The zero value suits a daemon that
// keeps no state.
type Options struct {
	// StateDir is a directory for the daemon's lasting state: the table for handles with kind
	// 2. The directory must lie outside the export. Empty means that such handles do not
	// outlive the FS. Open creates a missing StateDir. No two FS may use the same directory at
	// the same time.
	StateDir string

	// MayWriteState, if not nil, is called before every change of files in StateDir, which fails
	// with its error.
	MayWriteState func() error

	// FSID is Attr.FSID's value; 0 means dir's device number.
	FSID uint64

	// FSIDSeed, if FSID is 0, makes Attr.FSID a digest of FSIDSeed and RootID, which survives a
	// remount from another device.
	FSIDSeed string

	// TableHandles selects handles with kind 2 even if the kernel would open files by handle,
	// also those no longer in its cache.
	TableHandles bool

	// Exclusive is the first SetExclusive's argument.
	Exclusive bool

	// MaxFiles bounds the open descriptors. Less than 64 is taken as 64. 0 means half of
	// RLIMIT_NOFILE, at most 16384, not counting what clients hold: Files, and locked files
	// without a File, in the process may together take three quarters of RLIMIT_NOFILE.
	MaxFiles int

	// IdleTime is about how long an unused descriptor is kept; 0 means 2 s.
	IdleTime time.Duration

	// Verifier returns the write verifier, at Open and after each failure to
	// put data on stable storage. It must not repeat a value, in this process
	// or the next. Nil means random numbers.
	Verifier func() uint64

	// Log gets no message more often than package lograte permits; nil means
	// none.
	Log *slog.Logger

	fsType uint32 // overrides the file system's type unless 0: for tests

	unbounded bool // MaxFiles was 0

	shareYoung bool // cache just-born objects' handles too: for tests
}

// setDefaults sets the defaults.
func (o *Options) setDefaults() {
	if o.unbounded = o.MaxFiles == 0; o.unbounded {
		o.MaxFiles = int(min(maxFiles()/2, defaultMaxFiles))
	}
	o.MaxFiles = max(o.MaxFiles, minMaxFiles)
	if o.IdleTime <= 0 {
		o.IdleTime = defaultIdleTime
	}
	if o.Verifier == nil {
		o.Verifier = randomVerifier
	}
	o.Log = lograte.Logger(o.Log)
}

// maxFiles is RLIMIT_NOFILE.
func maxFiles() int64 {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 2 * defaultMaxFiles
	}
	return int64(min(r.Cur, math.MaxInt64))
}

func randomVerifier() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:])
}
