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

// errCovered is the reply to a LOOKUP of a name with a mount on it, if the proper
// reply (an error, or another object) would make the kernel unmount that mount.
// With this error the kernel keeps the name as it is.
const errCovered = fuse.Status(unix.ENOMEM)

// lookPause is the time between two scans of all mount namespaces. A scan costs
// milliseconds, and any user's walk may cause one at each name.
const lookPause = time.Second

// submounts holds the known mounts inside the mount, for LOOKUP: the current ones
// in our own mount namespace, and those in all others as the last scan found them.
type submounts struct {
	own ownMountTable
	all struct {
		mu      sync.Mutex // held during a scan, which all callers then use
		scanned time.Time
		version int // own.version at the last scan
		points  []string
	}
	scan func() []string // Mount.scan, except in tests
}

// An ownMountTable watches and caches our own namespace's mount table.
type ownMountTable struct {
	mu   sync.Mutex
	file *os.File // the table, which reports changes
	dev  []byte   // device whose points these are
	ownSubmounts
}

type ownSubmounts struct {
	version int // counts changes
	points  []string
}

// isCovered reports whether anything is mounted on a name in any mount namespace
// that can be read. Changes in other namespaces count after lookPause at the
// latest.
func (m *Mount) isCovered(dir *node, name string) bool {
	own := m.submounts.own.readPoints(m.deviceNumber())
	return m.table.isAt(dir, name, own.points) || m.table.isAt(dir, name, m.submounts.pointsAnywhere(own))
}

// isCoveredHere reports whether anything is mounted on a name in our own mount
// namespace.
func (m *Mount) isCoveredHere(dir *node, name string) bool {
	return m.table.isAt(dir, name, m.submounts.own.readPoints(m.deviceNumber()).points)
}

// scanMounts returns the points on which any mount namespace has mounts.
func (m *Mount) scanMounts() (points []string) {
	_ = m.walkMountTables(func(more []string) bool {
		points = append(points, more...)
		return false
	})
	return points
}

// pointsAnywhere returns the points on which any mount namespace has mounts. A
// change of our own table causes a scan only if there were points: it may have
// unmounted them, here and, by propagation, elsewhere.
func (l *submounts) pointsAnywhere(own ownSubmounts) []string {
	a := &l.all
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.scanned) >= lookPause || len(a.points) > 0 && a.version < own.version {
		a.version, a.points = own.version, l.scan()
		a.scanned = time.Now()
	}
	return a.points
}

// readPoints returns the current points in our table on device dev. It reads the
// table only after a change.
func (l *ownMountTable) readPoints(dev []byte) ownSubmounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hasChanged() && bytes.Equal(l.dev, dev) {
		return l.ownSubmounts
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
	l.ownSubmounts = ownSubmounts{l.version + 1, parseMountPoints(mounts, dev)}
	return l.ownSubmounts
}

// hasChanged reports whether the table may have changed since the last call. The
// kernel reports each change to each open file once: Go's poller must not get
// the report, and os.Open would let it.
func (l *ownMountTable) hasChanged() bool {
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

// close stops the watch.
func (l *ownMountTable) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeLocked()
}

func (l *ownMountTable) closeLocked() {
	l.file.Close() // nil is an error too
	l.file = nil
}
