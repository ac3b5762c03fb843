package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// fmodeExec is the flag with which the kernel opens a file to execute.
const fmodeExec = 0x20

// A retry is an open that was answered with ESTALE, so that the kernel tries
// again.
type retry struct {
	pid uint32
	at  time.Time
}

// Open implements fuse.RawFileSystem. It asks the server for the caller's
// rights (ACCESS), and learns from the same reply whether the file has changed:
// if so, the data cached by the kernel are stale (close-to-open consistency).
// For a held file all of this is known without a call.
func (m *Mount) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := m.table.node(in.NodeId)
	switch {
	case n == nil:
		return errStale
	case isShut(in.NodeId):
		return errAccess
	}
	o := m.begin(cancel, &in.InHeader)
	defer m.end(o)
	m.table.open(n) // first, so that a concurrent removal sees the open
	status := m.open(o, n, in.Flags, out)
	if status != fuse.OK {
		m.closed(o, n)
	}
	return status
}

func (m *Mount) open(o *op, n *node, flags uint32, out *fuse.OpenOut) fuse.Status {
	if err := m.flush(o, n); err != nil {
		return m.fail(err)
	}
	rights := openRights(flags)
	data := m.readEarly(o, n, openTypes(flags))
	allowed, err := m.may(o, n, rights, openTypes(flags))
	early := data()
	if err == nil && !n.stated() { // the attributes were dropped meanwhile
		err = m.fetch(o, n)
	}
	switch {
	case err != nil:
		return m.failOn(n, err)
	case n.removed():
		return m.failOn(n, errRemoved) // another object may have the name
	case allowed != rights:
		return errAccess
	}
	if flags&unix.O_TRUNC != 0 {
		o.mayChange(n)
		err := m.setAttr(o, n, o.who(), &nfs3.SetAttr{Size: nfs3.OptUint64{Set: true}})
		if err != nil {
			return m.fail(err)
		}
	}
	same, sameSize := n.asTold()
	if flags&unix.O_APPEND != 0 && flags&unix.O_TRUNC == 0 && !sameSize && n.mayRetry(o.from.Pid) {
		// The kernel appends at its own idea of the end. ESTALE makes the
		// kernel look the name up again, and so learn the size.
		return errStale
	}
	if same {
		n.retried(o.from.Pid)
	}
	if !same || n.changedAsTold() {
		m.expire(n)
	}
	var emptied *pages
	if known, current := m.keeps(o, n); known && !current {
		emptied = m.emptied(n)
	} else if known || same {
		out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	}
	out.OpenFlags |= m.openedAs(flags)
	if early != nil && (emptied == nil || !early.counts(n, emptied)) {
		early = nil
	}
	out.Fh = m.newFile(o, n, flags, emptied, early)
	return fuse.OK
}

// openTypes returns the delegations to ask for when a file is opened: all of
// ofFile for a file that will be read again, and none for a file that is about
// to change. A delegation of a changing file would make other clients wait
// until this mount has returned it, and this mount as well if the server
// recalls delegations from the changer too.
func openTypes(flags uint32) delegation.Types {
	if flags&(unix.O_ACCMODE|unix.O_TRUNC) != unix.O_RDONLY {
		return 0
	}
	return ofFile
}

// openedAs returns the flags of the kernel's open file. With O_DIRECT, the
// kernel asks for data beyond its idea of the end too, and writes in parallel.
// If the file cannot be written, and cannot be locked either, close has nothing to
// wait for and Flush is skipped.
func (m *Mount) openedAs(flags uint32) (open uint32) {
	if flags&unix.O_DIRECT != 0 {
		open = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_PARALLEL_DIRECT_WRITES
	}
	if flags&unix.O_ACCMODE == unix.O_RDONLY && !m.cfg.sharesPOSIX() {
		open |= fuse.FOPEN_NOFLUSH
	}
	return open
}

// openRights returns the rights that opening with flags requires.
func openRights(flags uint32) (rights uint32) {
	if flags&fmodeExec != 0 {
		return nfs3.AccessExecute
	}
	const write = nfs3.AccessModify | nfs3.AccessExtend
	switch flags & unix.O_ACCMODE {
	case unix.O_RDONLY:
		rights = nfs3.AccessRead
	case unix.O_WRONLY:
		rights = write
	default:
		rights = nfs3.AccessRead | write
	}
	if flags&unix.O_TRUNC != 0 {
		rights |= write
	}
	return rights
}

// asTold reports whether n's data, and n's size, are as the kernel was told.
func (n *node) asTold() (same, size bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	size = n.told.size == max(n.attr.Size, n.wrote)
	return size && n.told.mtime == n.attr.Mtime, size
}

// changedAsTold reports whether n has changed since the kernel was told of it.
func (n *node) changedAsTold() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.told.ctime != n.attr.Ctime
}

// mayRetry reports whether open may answer ESTALE: not if the kernel has just
// retried in vain.
func (n *node) mayRetry(pid uint32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.gaveUp != nil && n.gaveUp.pid == pid && now.Sub(n.gaveUp.at) < staleRetry {
		n.gaveUp = nil
		return false
	}
	n.gaveUp = &retry{pid: pid, at: now}
	return true
}

// retried records that the kernel's second try found nothing new.
func (n *node) retried(pid uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gaveUp != nil && n.gaveUp.pid == pid {
		n.gaveUp = nil
	}
}
