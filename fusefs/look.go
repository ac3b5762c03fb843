package fusefs

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// errCovered is the answer to a LOOKUP of a name with a mount on it, if the
// proper answer would have the kernel undo the mount: an error, or another
// object. With this error the kernel keeps the name as it is.
const errCovered = fuse.Status(unix.ENOMEM)

// lookPause is the time between two scans of all mount namespaces. A scan
// costs milliseconds, and any user's walk may ask for one at each name.
const lookPause = time.Second

// A look is what LOOKUP knows of mounts inside the mount: of those in our own
// mount namespace as they are, of all others as the last scan found them.
type look struct {
	own ownLook
	all struct {
		mu      sync.Mutex // held during a scan, which all callers then use
		scanned time.Time
		version int // of own at the last scan
		points  []string
	}
	scan func() []string // Mount.scan, except in tests
}

// An ownLook is the last look at the mount table of our own mount namespace.
type ownLook struct {
	mu   sync.Mutex
	file *os.File // the table, to be told of changes
	dev  []byte   // of points
	ownTable
}

type ownTable struct {
	version int // counts changes
	points  []string
}

// coveredName reports whether anything is mounted on a name in any mount
// namespace that can be read. Changes in other namespaces than ours count after
// lookPause at the latest.
func (m *Mount) coveredName(dir *node, name string) bool {
	own := m.look.own.read(m.device())
	return m.table.isAt(dir, name, own.points) || m.table.isAt(dir, name, m.look.anywhere(own))
}

// coveredHere is coveredName for our own mount namespace.
func (m *Mount) coveredHere(dir *node, name string) bool {
	return m.table.isAt(dir, name, m.look.own.read(m.device()).points)
}

// scan returns the points on which any mount namespace has mounts.
func (m *Mount) scan() (points []string) {
	_ = m.tables(func(more []string) bool {
		points = append(points, more...)
		return false
	})
	return points
}

// anywhere returns the points on which any mount namespace has mounts. A change
// of our own table scans anew only if there were points: it may have undone
// them, here and, by propagation, elsewhere.
func (l *look) anywhere(own ownTable) []string {
	a := &l.all
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.scanned) >= lookPause || len(a.points) > 0 && a.version < own.version {
		a.version, a.points = own.version, l.scan()
		a.scanned = time.Now()
	}
	return a.points
}

// read returns what our table has on device dev now. It reads the table only
// after a change.
func (l *ownLook) read(dev []byte) ownTable {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.changed() && bytes.Equal(l.dev, dev) {
		return l.ownTable
	}
	var mounts []byte
	_, err := l.file.Seek(0, io.SeekStart)
	if err == nil {
		mounts, err = io.ReadAll(l.file)
	}
	if err != nil {
		l.closeLocked()
	}
	l.dev = dev
	l.ownTable = ownTable{l.version + 1, pointsOn(mounts, dev)}
	return l.ownTable
}

// changed reports whether the table may have changed since the last call. The
// kernel reports each change to each open file once: Go's poller must not get
// the report, and os.Open would let it.
func (l *ownLook) changed() bool {
	if l.file == nil {
		fd, err := unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			l.file = os.NewFile(uintptr(fd), "mountinfo")
		}
		return true
	}
	p := []unix.PollFd{{Fd: int32(l.file.Fd()), Events: unix.POLLPRI}}
	n, err := unix.Poll(p, 0)
	return n > 0 || err != nil
}

// close ends the watch.
func (l *ownLook) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeLocked()
}

func (l *ownLook) closeLocked() {
	l.file.Close() // nil is an error too
	l.file = nil
}
