//go:build linux

package posix

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// process is who the daemon itself is.
type process struct {
	switches bool // operations run as their callers, for the daemon is root
	gid      uint32
	groups   []uint32
}

// thisProcess finds out who the daemon is. Root that cannot be others, or
// would keep its capabilities as such, must not serve anybody.
func thisProcess() (process, error) {
	p := process{gid: uint32(unix.Getegid())}
	if unix.Geteuid() != 0 {
		return p, nil
	}
	groups, err := unix.Getgroups()
	if err != nil {
		return p, fmt.Errorf("supplementary groups: %w", err)
	}
	for _, g := range groups {
		p.groups = append(p.groups, uint32(g))
	}
	p.switches = true
	const other = 1 // any user but root: daemon, everywhere
	if err := p.as(&vfs.Cred{UID: other, GID: other, Groups: []uint32{other}}, noCapabilities); err != nil {
		return p, fmt.Errorf("root cannot act as other users, which takes CAP_SETUID, CAP_SETGID and plain securebits; run as an ordinary user: %w", err)
	}
	return p, nil
}

// noCapabilities is an error if the thread has any.
func noCapabilities() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return err
	}
	if data[0].Effective|data[1].Effective != 0 {
		return errors.New("capabilities stay")
	}
	return nil
}

// identitySwitch is another identity that the thread wears, and must leave.
type identitySwitch struct {
	p                *process
	uid, gid, groups bool
	locked           bool
}

// become puts the calling thread alone into c's place, and locks the
// goroutine to it. It is the effective ids that change, not the fsuid: the
// kernel says when it refuses that, and it takes all capabilities away, also
// CAP_SYS_RESOURCE, which would pass quotas and reserved blocks.
func (p *process) become(c *vfs.Cred) (identitySwitch, error) {
	w := identitySwitch{p: p}
	if !p.switches || (c.UID == 0 && c.GID == p.gid) {
		return w, nil
	}
	if c.UID == noID || c.GID == noID {
		return w, unix.EACCES
	}
	w.lock()
	// Groups mean nothing beside root's capabilities; the gid is for what
	// root makes.
	if c.UID != 0 && !slices.Equal(c.Groups, p.groups) {
		if e := setGroups(c.Groups); e != 0 {
			return w.undone(e)
		}
		w.groups = true
	}
	if c.GID != p.gid {
		if e := setEGID(c.GID); e != 0 {
			return w.undone(e)
		}
		w.gid = true
	}
	return w.becomeUID(c.UID)
}

// becomeUID changes the effective uid only. That is enough, and cheaper by
// two thirds, where no permission is asked for: capabilities are gone.
func (p *process) becomeUID(uid uint32) (identitySwitch, error) {
	w := identitySwitch{p: p}
	if !p.switches || uid == 0 {
		return w, nil
	}
	if uid == noID {
		return w, unix.EACCES
	}
	w.lock()
	return w.becomeUID(uid)
}

func (w identitySwitch) becomeUID(uid uint32) (identitySwitch, error) {
	if uid == 0 {
		return w, nil
	}
	if e := setEUID(uid); e != 0 {
		return w.undone(e)
	}
	w.uid = true
	return w, nil
}

func (w *identitySwitch) lock() {
	runtime.LockOSThread()
	w.locked = true
}

// undone leaves what was put on. EINVAL is an id that this user namespace
// has not got: nobody whom anything here would let in.
func (w identitySwitch) undone(e unix.Errno) (identitySwitch, error) {
	w.leave()
	if e == unix.EINVAL {
		e = unix.EACCES
	}
	return identitySwitch{}, e
}

// leave gives the thread its own identity back. That cannot be refused; a
// thread for which it is must not go on.
func (w identitySwitch) leave() {
	if !w.locked {
		return
	}
	var e unix.Errno
	if w.uid {
		e = setEUID(0)
	}
	if w.gid {
		e |= setEGID(w.p.gid)
	}
	if w.groups {
		e |= setGroups(w.p.groups)
	}
	if e != 0 {
		panic("vfs/posix: a thread cannot get its identity back")
	}
	runtime.UnlockOSThread()
}

// as runs fn, which does nothing but system calls, as c.
func (p *process) as(c *vfs.Cred, fn func() error) error {
	w, err := p.become(c)
	if err != nil {
		return err
	}
	defer w.leave()
	return fn()
}

// The functions of package syscall change all threads.

const (
	noID        = ^uint32(0) // "leave it" to the kernel: as a caller's id it would leave root's
	unchangedID = ^uintptr(0)
)

func setEUID(uid uint32) unix.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_SETRESUID, unchangedID, uintptr(uid), unchangedID)
	return e
}

func setEGID(gid uint32) unix.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_SETRESGID, unchangedID, uintptr(gid), unchangedID)
	return e
}

func setGroups(g []uint32) unix.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(g)), uintptr(unsafe.Pointer(unsafe.SliceData(g))), 0)
	return e
}

// A credKey is a caller as far as permissions go.
type credKey struct {
	uid, gid uint32
	groups   []uint32
}

// whoIs returns c's class; its groups alias c's.
func (p *process) whoIs(c *vfs.Cred) credKey {
	if !p.switches || c.UID == 0 {
		return credKey{}
	}
	return credKey{c.UID, c.GID, c.Groups}
}

func (w *credKey) equal(v *credKey) bool {
	return w.uid == v.uid && w.gid == v.gid && slices.Equal(w.groups, v.groups)
}
