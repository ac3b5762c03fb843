package billy

import (
	"hash/fnv"
	"os"
	"sync"
	"sync/atomic"
	"time"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// FS serves a billy file system as a vfs.FS.
type FS struct {
	fs       gobilly.Filesystem
	change   gobilly.Change // or nil
	special  Special        // or nil
	info     func(os.FileInfo) (Info, bool)
	o        Options
	readOnly bool
	fsid     uint64
	started  vfs.Time
	instance uint64 // distinguishes this FS's objects from others'
	verifier atomic.Uint64

	mu      sync.RWMutex // held by changes
	reading sync.Locker  // held by all other operations: mu, or its reader's side
	table   nodeTable
	lists   listings
}

var _ vfs.FS = (*FS)(nil)

// New serves fs; the caller still owns fs. It fails if Handles does, if the root's handle is
// invalid, or if files cannot be synced, because COMMIT could then not keep its promise.
func New(fs gobilly.Filesystem, o Options) (*FS, error) {
	f := &FS{fs: fs, change: o.Change, special: o.Special, info: o.Info, o: o}
	f.setDefaults()
	if err := f.checkSync(); err != nil {
		return nil, err
	}
	h, err := f.table.newHandle(nil)
	if err != nil {
		return nil, err
	}
	f.table.root = f.table.addNode(h, vfs.TypeDir, 0)
	sum := fnv.New64a()
	sum.Write(h.AppendTo(nil)) // never fails
	f.fsid = sum.Sum64()
	return f, nil
}

// setDefaults sets the defaults.
func (f *FS) setDefaults() {
	if f.change == nil {
		f.change, _ = f.fs.(gobilly.Change)
	}
	if f.special == nil {
		f.special, _ = f.change.(Special)
	}
	if f.info == nil {
		f.info = SysInfo
	}
	if f.o.MaxFileSize == 0 {
		f.o.MaxFileSize = maxFileSize
	}
	f.reading = &f.mu
	if f.o.Concurrent {
		f.reading = f.mu.RLocker()
	}
	f.readOnly = !gobilly.CapabilityCheck(f.fs, gobilly.WriteCapability)
	f.verifier.Store(randomUint64())
	f.instance = randomUint64()
	f.started = timeOf(time.Now())
	f.table = nodeTable{
		handles: f.o.Handles, max: f.o.MaxObjects,
		byHandle: make(map[vfs.Handle]*node), byFileID: make(map[uint64]*node),
	}
	if f.table.handles == nil {
		f.table.handles = newOwnHandles()
	}
	if f.table.max == 0 {
		f.table.max = defaultObjects
	}
	f.table.max = max(f.table.max, minObjects)
}

// Root returns the root's handle.
func (f *FS) Root() vfs.Handle { return f.table.root.handle }

// WriteVerifier returns the write verifier. It changes with each New, and when
// a file could not be synced.
func (f *FS) WriteVerifier() uint64 { return f.verifier.Load() }

// Close does nothing: the billy file system belongs to its owner.
func (f *FS) Close() error { return nil }
